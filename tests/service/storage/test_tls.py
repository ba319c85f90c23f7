"""Wrong TLS settings: one line names the setting, at the start or at every attempt to connect."""

import os
import subprocess
from contextlib import closing

import pytest

from service.checkpoint.store import StoreUnavailableError
from service.config.settings import Api
from service.embedded.process import HOST, free_port
from service.errors import SettingsError
from service.server.server import _tls_context
from tests.faketime import FAKETIME
from tests.service.storage.redis_processes import running
from tests.service.storage.stores import make_store


def make_certificate(folder, name, **environment):
    """Write a self-signed certificate, with its key."""
    made_by = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 5 -subj"
        f" /CN={name}".split()
    )
    files = ["-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt"]
    names = ["-addext", f"subjectAltName=IP:{HOST}"]
    subprocess.run(
        [*made_by, *files, *names], check=True, capture_output=True, env=os.environ | environment
    )


@pytest.fixture
def files(tmp_path):
    for name in ("one", "other"):
        make_certificate(tmp_path, name)
    (tmp_path / "garbage.crt").write_text("no certificate")
    return tmp_path


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"ca_file": "garbage.crt"}, "store.ca_file"),
        ({"ca_file": "one.key"}, "store.ca_file"),
        ({"cert_file": "one.crt", "key_file": "other.key"}, "store.key_file"),
        ({"cert_file": "garbage.crt", "key_file": "one.key"}, "store.cert_file"),
        ({"cert_file": "one.crt", "key_file": "garbage.crt"}, "store.key_file"),
        ({"key_file": "one.key"}, "store.cert_file"),
        ({"cert_file": "absent.crt", "key_file": "one.key"}, "store.cert_file"),
    ],
)
def test_unusable_tls_files_for_redis_are_refused_at_the_start(files, settings, named):
    paths = {name: files / file for name, file in settings.items()}
    with pytest.raises(SettingsError) as refused:
        make_store(f"rediss://{HOST}:1/0", **paths)
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("cert", "key", "authority"),
    [
        ("one.crt", "other.key", None),
        ("garbage.crt", "one.key", None),
        ("one.crt", "one.key", "garbage.crt"),
    ],
)
def test_unusable_tls_files_for_the_api_are_refused_at_the_start(files, cert, key, authority):
    tls = {"cert_file": files / cert, "key_file": files / key}
    tls |= {"client_ca_file": files / authority} if authority else {}
    with pytest.raises(SettingsError, match=r"api\.tls") as refused:
        _tls_context(Api(tls=tls).tls)
    assert "\n" not in str(refused.value)


def test_a_server_with_an_untrusted_or_expired_certificate_is_retried(files, system_redis):
    """The server may be fixed, so the client retries; the line says what to check."""
    if FAKETIME.exists():
        make_certificate(files, "old", LD_PRELOAD=str(FAKETIME), FAKETIME="-30d")
    for name, trusted, hint in (("one", "other", "store.ca_file"), ("old", "old", "expired")):
        if not (files / f"{name}.crt").exists():
            continue
        port = free_port()
        options = (
            f"--port 0 --tls-port {port} --tls-auth-clients no --tls-ca-cert-file"
            f" {files / name}.crt "
        )
        options += f"--tls-cert-file {files / name}.crt --tls-key-file {files / name}.key"
        with (
            running(files / f"redis-{name}", port, *options.split(), executable=system_redis),
            closing(
                make_store(f"rediss://{HOST}:{port}/0", ca_file=files / f"{trusted}.crt")
            ) as store,
        ):
            with pytest.raises(StoreUnavailableError, match=hint) as trouble:
                store.acquire()
            assert "\n" not in str(trouble.value)
