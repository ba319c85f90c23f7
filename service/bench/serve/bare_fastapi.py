"""A minimal FastAPI server to compare with: `python -m service.bench.serve.bare_fastapi PORT`.

pydantic parses ten named numbers and the answer is a constant. The server's settings are those of
`Service`.
"""

import gc
import sys
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel, create_model

COLUMNS = tuple(f"a{n}" for n in range(10))
ANSWER = {"label": "yes", "score": 1.0}


def bare_app() -> FastAPI:
    fields: dict[str, Any] = dict.fromkeys(COLUMNS, (float, ...))
    features = create_model("Features", **fields)
    body: type[BaseModel] = create_model("Body", features=(features, ...))

    async def predict(instance: Any) -> dict[str, Any]:
        del instance
        return ANSWER

    predict.__annotations__["instance"] = body
    app = FastAPI(openapi_url=None)
    app.post("/predict")(predict)
    return app


if __name__ == "__main__":
    server = bare_app()
    gc.collect()
    gc.freeze()
    settings: dict[str, Any] = {
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "lifespan": "off",
    }
    uvicorn.run(server, port=int(sys.argv[1]), **settings)
