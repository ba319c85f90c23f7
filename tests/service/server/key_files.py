"""A keys file with one key, and a clock that tests move."""

import pytest
import yaml

from service.server.api_keys import digest_of, new_key

SECRET = new_key()


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def entry(secret=SECRET, **values):
    return {"name": "app", "sha256": digest_of(secret), "scopes": ["predict"]} | values


def write_keys(path, *entries):
    path.write_text(yaml.safe_dump(list(entries)))
    return path


@pytest.fixture(name="file")
def file_fixture(tmp_path):
    return tmp_path / "keys.yaml"
