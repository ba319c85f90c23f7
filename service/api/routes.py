"""The table of routes: what is asked where, by whom, and in which role. Router, guard and OpenAPI all follow it."""

from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from service.api import explanations, inference, ingest, page, predictions, views
from service.api.context import Context
from service.keys import Scope

Handler = Callable[[Context, Request], Awaitable[Response]]


class Route(NamedTuple):
    method: Literal["GET", "POST"]
    path: str
    scope: Scope | None
    """What a key must be good for; None: open to all."""
    handler: Handler
    takes: str | None
    """The shape of the body, by its name in `openapi`."""
    gives: str
    """The shape of a good reply; `text` for plain text, `html` for a page."""
    predicts: bool = False
    """Answers from the model: not in the role `learn`, and 503 until the model is ready."""
    query: tuple[str, ...] | None = None
    """Parameters of the URL, by their names in `openapi`; others are refused. None: whatever is there is not read."""
    serves: bool = False
    """Not in the role `learn` either, but there from the start."""


ROUTES = (
    Route(
        "POST", "/predict", "predict", explanations.predict, "Instance", "Predicted", predicts=True, query=("explain",)
    ),
    Route("POST", "/predict/batch", "predict", predictions.predict_batch, "Instances", "Predictions", True, query=()),
    Route("POST", "/explain", "predict", explanations.explain, "Instance", "Explained", predicts=True, query=()),
    Route("POST", "/events", "events", ingest.events, "Event", "Appended", serves=True),
    Route("GET", "/v2", "predict", inference.server, None, "V2Server", serves=True),
    Route("GET", "/v2/health/live", "predict", inference.live, None, "V2Live", serves=True),
    Route("GET", "/v2/health/ready", "predict", inference.ready, None, "V2Ready", serves=True),
    *(
        route
        for model in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}")
        for route in (
            Route("GET", model, "predict", inference.model, None, "V2Model", serves=True),
            Route("GET", f"{model}/ready", "predict", inference.model_ready, None, "V2ModelReady", serves=True),
            Route("POST", f"{model}/infer", "predict", inference.infer, "V2Request", "V2Response", predicts=True),
        )
    ),
    Route("GET", "/weights", "metrics", explanations.weights, None, "Weights", query=("top", "classes")),
    Route("GET", "/learners", "metrics", explanations.learners, None, "Learners"),
    Route("GET", "/status", "metrics", views.status, None, "Status"),
    Route("GET", "/history", "metrics", views.history, None, "History"),
    Route("GET", "/metrics", "metrics", views.metrics, None, "text"),
    Route("GET", "/openapi.json", "metrics", views.openapi, None, "OpenApi"),
    Route("GET", "/", None, page.page, None, "html"),
    Route("GET", "/healthz", None, views.healthz, None, "Alive"),
    Route("GET", "/readyz", None, views.readyz, None, "Ready"),
)
