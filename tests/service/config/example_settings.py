"""The documented example, changed and loaded, and the one line that refuses it."""

import pytest
import yaml

from service.config.loader import load
from service.config.settings import Settings
from service.errors import SettingsError

EXAMPLE = """
name: fraud
learner: {kind: scaled, scaler: gn, base: {kind: pa1, C: 0.1}}
features: {columns: [amount, age], text: [note], bits: 18}
label: {field: label, positive: fraud}
source: {url: "kafka://localhost:9092/payments", start: earliest, client: kafka-python}
dead_letters: {url: "kafka://localhost:9092/payments.dead"}
store: {url: "redis://localhost:6379/0"}
checkpoint: {interval_seconds: 1, interval_events: 100000, keep: 8}
api: {host: 127.0.0.1, port: 8000}
"""


@pytest.fixture(name="loaded")
def loaded_fixture(tmp_path):
    """`loaded(changes, environ)` loads the example with top-level keys replaced."""

    def read(changes=None, environ=None) -> Settings:
        path = tmp_path / "model.yaml"
        path.write_text(yaml.safe_dump(yaml.safe_load(EXAMPLE) | (changes or {})))
        return load(path, environ or {})

    return read


def complaint(loaded, changes=None, environ=None) -> str:
    with pytest.raises(SettingsError) as caught:
        loaded(changes, environ)
    message = str(caught.value)
    assert "\n" not in message
    return message
