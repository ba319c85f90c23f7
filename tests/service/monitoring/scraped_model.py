"""A model whose metrics are scraped."""

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from learners.registry import make
from service.config.settings import Features, Label, Limits
from service.features.decoder import Decoder
from service.features.reject import Reject
from service.model.model import Model
from service.monitoring.health import Health
from service.monitoring.metrics import Metrics

FEATURES = Features(columns=("a",), bits=4)


class Scraped:
    """A model with its metrics, fed as the worker feeds them."""

    def __init__(self, learner="pa1", label=Label()) -> None:  # noqa: B008  # frozen
        self.decoder = Decoder(FEATURES, label, Limits(max_name=20))
        self.model = Model(make(learner), FEATURES, label, self.decoder)
        self.metrics = Metrics(CollectorRegistry(), "m")
        self.health = Health()

    def feed(self, *values: bytes) -> None:
        decoded = [self.decoder.event(value) for value in values]
        outcome = self.model.learn([event for event in decoded if not isinstance(event, Reject)])
        reasons = [event.reason for event in decoded if isinstance(event, Reject)]
        reasons += [reason for _, reason in outcome.refused]
        self.model.count_rejects(reasons)
        self.metrics.learned(outcome)
        self.metrics.rejected(reasons)

    def samples(self) -> dict[tuple[str, ...], float]:
        """Return every series by its name and the values of its labels, without the
        model's label.
        """
        text = self.metrics.exposition(self.model, self.health).decode()
        found = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = dict(sample.labels)
                assert labels.pop("model") == "m"
                found[sample.name.removeprefix("onepass_"), *labels.values()] = sample.value
        return found
