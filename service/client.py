"""A client of the HTTP side: typed answers, connections kept open, and tries again where that is safe.

    with Client("http://127.0.0.1:8000", key="op_...") as model:
        answer = model.predict({"amount": 420.5, "country": "br"})

Whatever only asks is asked again after any trouble. An event is sent again only where the server cannot have taken it:
the connection was never made, or the answer was 429 or 503 (of which `log_down` means that it may be there twice).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar

import msgspec

from service.client_transport import Refused, Transport, Unreachable

__all__ = ["Client", "Model", "Position", "Prediction", "Refused", "Unreachable"]

Features = Mapping[str, float | str | bool | Sequence[str]]
T = TypeVar("T")

TOO_MUCH = ("too_many_instances", "too_large")


class Model(msgspec.Struct, frozen=True):
    """Which state has answered."""

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
    """Where the log has an event."""

    partition: str
    position: str


class _Predictions(msgspec.Struct):
    predictions: list[Prediction]


class _Appended(msgspec.Struct):
    position: Position


class Client:
    """One model's service; may be used by many threads, none of which waits for another's connection."""

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        timeout: float = 10.0,
        retries: int = 4,
        ca_file: str | None = None,
        cert_file: str | None = None,
        key_file: str | None = None,
        flat: bool = False,
        label: str = "label",
        tree: str | None = None,
    ) -> None:
        """`timeout`: seconds for all tries of a call together; `flat`, `label` and `tree` as in the model's settings.

        The tree is given among the features, under its name.
        PEM files: `ca_file` of who signed the server's certificate, `cert_file` and `key_file` of the client's own.
        """
        self._transport = Transport(url, key, timeout, retries, ca_file, cert_file, key_file)
        self._flat, self._label, self._tree = flat, label, tree
        self._most = 1000

    def __repr__(self) -> str:
        return f"Client({self._transport!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    def predict(self, features: Features) -> Prediction:
        return self._decoded(Prediction, self._ask("POST", "/predict", self._instance(features)))

    def predict_batch(self, rows: Sequence[Features]) -> list[Prediction]:
        """One answer per row, in order; in as many requests as the server's limits ask for."""
        answers: list[Prediction] = []
        while len(answers) < len(rows):
            some = rows[len(answers) : len(answers) + self._most]
            try:
                reply = self._ask("POST", "/predict/batch", {"instances": [self._instance(row) for row in some]})
            except Refused as refused:
                if refused.code not in TOO_MUCH or len(some) == 1:
                    raise
                self._most = len(some) // 2
                continue
            told = self._decoded(_Predictions, reply).predictions
            if len(told) != len(some):
                raise Unreachable(f"{self!r} answered {len(told)} of {len(some)} rows")
            answers += told
        return answers

    def explain(self, features: Features) -> dict[str, Any]:
        """What each feature adds to the score; of a kernel model, each stored row (`support`)."""
        return self._decoded(dict[str, Any], self._ask("POST", "/explain", self._instance(features)))

    def send_event(
        self,
        features: Features,
        label: float | str | bool,
        *,
        id: str | None = None,  # noqa: A002 - the event's own word
        weight: float | None = None,
    ) -> Position:
        """Append an event to the log that is learned from; on return the log has it."""
        beside = {self._label: label, "id": id, "weight": weight}
        event = self._instance(features) | {name: value for name, value in beside.items() if value is not None}
        return self._decoded(_Appended, self._ask("POST", "/events", event, repeatable=False)).position

    def status(self) -> dict[str, Any]:
        return self._decoded(dict[str, Any], self._ask("GET", "/status"))

    def weights(self, top: int = 20) -> dict[str, Any]:
        """The features that weigh most; of a kernel model the stored rows."""
        return self._decoded(dict[str, Any], self._ask("GET", f"/weights?top={int(top)}"))

    def ready(self) -> bool:
        """Whether predictions are served now."""
        return self._transport.is_good("/readyz")

    def _instance(self, features: Features) -> dict[str, Any]:
        if self._flat:
            return dict(features)
        beside = {} if self._tree is None or self._tree not in features else {self._tree: features[self._tree]}
        return {"features": {name: value for name, value in features.items() if name not in beside}} | beside

    def _decoded(self, kind: type[T], body: bytes) -> T:
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.DecodeError as error:
            raise Unreachable(f"{self!r} answered with something else than a model does") from error

    def _ask(self, method: str, path: str, document: Any = None, *, repeatable: bool = True) -> bytes:
        body = None if document is None else msgspec.json.encode(document)
        return self._transport.ask(method, path, body, repeatable=repeatable)
