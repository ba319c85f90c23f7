"""A client of an app with keys: one key per scope, an expired one, and one with a rate."""

from datetime import date
from typing import get_args

import pytest
import yaml

from service.server.api_keys import KeyFile, Scope, digest_of, new_key
from tests.service.api.api_client import Client

SCOPES = get_args(Scope)
SECRETS = {scope: new_key() for scope in (*SCOPES, "expired", "limited")}


@pytest.fixture(name="file")
def file_fixture(tmp_path):
    keys = [
        {"name": scope, "sha256": digest_of(SECRETS[scope]), "scopes": [scope]} for scope in SCOPES
    ]
    more = {
        "sha256": digest_of(SECRETS["expired"]),
        "scopes": [*SCOPES],
        "expires": date(2020, 1, 1),
    }
    keys.append({"name": "expired"} | more)
    limited = {
        "sha256": digest_of(SECRETS["limited"]),
        "scopes": ["metrics"],
        "rate": 0.5,
        "burst": 3,
    }
    keys.append({"name": "limited"} | limited)
    path = tmp_path / "keys.yaml"
    path.write_text(yaml.safe_dump(keys))
    return path


@pytest.fixture(name="client")
def client_fixture(file):
    return Client(keys=KeyFile(file))


def bearer(key):
    return {"authorization": f"Bearer {SECRETS.get(key, key)}"} if key else {}


def ask(client, method, path, key="", body=b'{"features": {}}', **headers):
    return client.ask(method, path, body if method == "POST" else None, **bearer(key), **headers)
