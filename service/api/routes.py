"""The table of routes: path, scope, handler and shapes of each. Router, middleware and OpenAPI
document all follow it.
"""

from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from service.api import explain as explanations
from service.api import ingest, views
from service.api import predict as predictions
from service.api.context import Context
from service.api.v2 import handlers as inference
from service.server.api_keys import Scope

Handler = Callable[[Context, Request], Awaitable[Response]]


class Route(NamedTuple):
    """One path and method, with its handler and its properties."""

    method: Literal["GET", "POST"]
    path: str
    scope: Scope | None
    """The scope that a key must have; None: no key is needed."""
    handler: Handler
    takes: str | None
    """The shape of the body, by its name in `openapi`; None: there is no body."""
    gives: str
    """The shape of a good reply, by its name; `text` for plain text, `html` for a page."""
    predicts: bool = False
    """Whether the model answers: absent in the role `learn`, and 503 until the model is ready."""
    query: tuple[str, ...] | None = None
    """Parameters of the URL, by their names in `openapi`; others are refused. None: the query is
    not read.
    """
    serves: bool = False
    """Whether it is absent in the role `learn` too, but answers before the model is ready."""
    writes: bool = False
    """Whether it changes something: pages of other origins are refused, and a body must be declared
    as JSON.
    """


ROUTES = (
    Route(
        "POST",
        "/predict",
        "predict",
        explanations.predict,
        "Instance",
        "Predicted",
        predicts=True,
        query=("explain",),
    ),
    Route(
        "POST",
        "/predict/batch",
        "predict",
        predictions.predict_batch,
        "Instances",
        "Predictions",
        True,
        query=(),
    ),
    Route(
        "POST",
        "/explain",
        "predict",
        explanations.explain,
        "Instance",
        "Explained",
        predicts=True,
        query=(),
    ),
    Route(
        "POST", "/events", "events", ingest.events, "Event", "Appended", serves=True, writes=True
    ),
    Route("GET", "/v2", "predict", inference.server, None, "V2Server", serves=True),
    Route("GET", "/v2/health/live", "predict", inference.live, None, "V2Live", serves=True),
    Route("GET", "/v2/health/ready", "predict", inference.ready, None, "V2Ready", serves=True),
    *(
        route
        for model in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}")
        for route in (
            Route("GET", model, "predict", inference.model, None, "V2Model", serves=True),
            Route(
                "GET",
                f"{model}/ready",
                "predict",
                inference.model_ready,
                None,
                "V2ModelReady",
                serves=True,
            ),
            Route(
                "POST",
                f"{model}/infer",
                "predict",
                inference.infer,
                "V2Request",
                "V2Response",
                predicts=True,
            ),
        )
    ),
    Route(
        "GET",
        "/weights",
        "metrics",
        explanations.weights,
        None,
        "Weights",
        query=("top", "classes"),
    ),
    Route("GET", "/learners", "metrics", explanations.learners, None, "Learners"),
    Route("GET", "/status", "metrics", views.status, None, "Status"),
    Route("GET", "/history", "metrics", views.history, None, "History"),
    Route("GET", "/metrics", "metrics", views.metrics, None, "text"),
    Route("GET", "/openapi.json", "metrics", views.openapi, None, "OpenApi"),
    Route("GET", "/", None, views.page, None, "html"),
    Route("GET", "/healthz", None, views.healthz, None, "Alive"),
    Route("GET", "/readyz", None, views.readyz, None, "Ready"),
)
