"""The Python client of the HTTP API: typed replies, open connections, and retries that are safe.

    with Client("http://127.0.0.1:8000", key="op_...") as model:
        answer = model.predict({"amount": 420.5, "country": "br"})

A request that only reads is retried after any failure. An event is sent again only if the server
cannot have appended it: the connection was never made, or the status was 429 or 503. (After a 503
`log_down` the log may have the event twice.)
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar

import msgspec

from service.client.transport import PUBLIC, RequestError, Tls, Transport, UnreachableError

__all__ = ["Client", "Model", "Position", "Prediction", "RequestError", "Tls", "UnreachableError"]

Features = Mapping[str, float | str | bool | Sequence[str]]
T = TypeVar("T")

TOO_MUCH = ("too_many_instances", "too_large")


class Model(msgspec.Struct, frozen=True):
    """The model state that made a prediction."""

    name: str
    version: int
    generation: int
    age_seconds: float
    stale_seconds: float


class Prediction(msgspec.Struct, frozen=True):
    label: str | int | None
    score: float | None
    probability: float | None
    model: Model
    scores: dict[str, float] | None = None


class Position(msgspec.Struct, frozen=True):
    """Position of an event in the log."""

    partition: str
    position: str


class _Predictions(msgspec.Struct):
    predictions: list[Prediction]


class _Appended(msgspec.Struct):
    position: Position


class Client:
    """Client of one model's service. Threads may share it; none waits for another's connection."""

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        timeout: float = 10.0,
        retries: int = 4,
        tls: Tls = PUBLIC,
        flat: bool = False,
        label: str = "label",
        tree: str | None = None,
    ) -> None:
        """`timeout`: seconds for all tries of one call. `flat`, `label` and `tree`: as in the
        model's settings.

        The features of an instance include its tree, under its name.
        """
        self._transport = Transport(url, key, timeout, retries, tls)
        self._flat = flat
        self._label = label
        self._tree = tree
        self._batch_size = 1000

    def __repr__(self) -> str:
        return f"Client({self._transport!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    def predict(self, features: Features) -> Prediction:
        return self._decode(Prediction, self._request("POST", "/predict", self._instance(features)))

    def predict_batch(self, rows: Sequence[Features]) -> list[Prediction]:
        """Predict one result per row, in order. Large batches become several requests."""
        answers: list[Prediction] = []
        while len(answers) < len(rows):
            part = rows[len(answers) : len(answers) + self._batch_size]
            try:
                reply = self._request(
                    "POST", "/predict/batch", {"instances": [self._instance(row) for row in part]}
                )
            except RequestError as error:
                if error.code not in TOO_MUCH or len(part) == 1:
                    raise
                self._batch_size = len(part) // 2
                continue
            predictions = self._decode(_Predictions, reply).predictions
            if len(predictions) != len(part):
                raise UnreachableError(f"{self!r} answered {len(predictions)} of {len(part)} rows")
            answers += predictions
        return answers

    def explain(self, features: Features) -> dict[str, Any]:
        """Return what each feature adds to the score; for a kernel model, each stored row."""
        return self._decode(
            dict[str, Any], self._request("POST", "/explain", self._instance(features))
        )

    def send_event(
        self,
        features: Features,
        label: float | str | bool,
        *,
        id: str | None = None,  # noqa: A002 - the event's own word
        weight: float | None = None,
    ) -> Position:
        """Append an event to the log that the model learns from. On return the log has it."""
        fields = {self._label: label, "id": id, "weight": weight}
        event = self._instance(features) | {
            name: value for name, value in fields.items() if value is not None
        }
        return self._decode(
            _Appended, self._request("POST", "/events", event, repeatable=False)
        ).position

    def status(self) -> dict[str, Any]:
        return self._decode(dict[str, Any], self._request("GET", "/status"))

    def weights(self, top: int = 20) -> dict[str, Any]:
        """Return the features with the largest weights; for a kernel model the stored rows."""
        return self._decode(dict[str, Any], self._request("GET", f"/weights?top={int(top)}"))

    def ready(self) -> bool:
        """Whether predictions are served now."""
        return self._transport.answers_200("/readyz")

    def _instance(self, features: Features) -> dict[str, Any]:
        if self._flat:
            return dict(features)
        tree = (
            {}
            if self._tree is None or self._tree not in features
            else {self._tree: features[self._tree]}
        )
        return {
            "features": {name: value for name, value in features.items() if name not in tree}
        } | tree

    def _decode(self, kind: type[T], body: bytes) -> T:
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.DecodeError as error:
            raise UnreachableError(
                f"{self!r} sent an unexpected reply: check that the URL is a model's service"
            ) from error

    def _request(
        self, method: str, path: str, document: Any = None, *, repeatable: bool = True
    ) -> bytes:
        body = None if document is None else msgspec.json.encode(document)
        return self._transport.request(method, path, body, repeatable=repeatable)
