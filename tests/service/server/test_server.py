"""The addresses on which HTTP may listen, with which certificates and keys."""

import socket
import subprocess

import pytest
import yaml

from service.app import AdminServer
from service.config.settings import Api
from service.errors import SettingsError
from service.server.api_keys import digest_of, new_key
from service.server.server import _tls_context, open_socket
from tests.looped import looped
from tests.service.api.api_client import Client


@looped("host", ["127.0.0.1", "localhost", "127.5.0.1", "::1"])
def test_listening_on_loopback_needs_no_key(host):
    try:
        open_socket(host, 0, open_to_others=False).close()
    except SettingsError as error:
        if host == "::1" and "cannot listen" in str(error):
            pytest.skip("no IPv6 here")
        raise


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "0", "0x0", "00.0.0.0", "elsewhere"])
def test_listening_elsewhere_needs_keys_or_insecure(host, monkeypatch):
    if host == "elsewhere":  # a name counts as its address
        found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("0.0.0.0", 0))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(SettingsError) as caught:
        open_socket(host, 0, open_to_others=False)
    if "cannot listen" in str(caught.value):
        pytest.skip("no IPv6 here")
    assert "api.keys_file" in str(caught.value)
    assert "--insecure" in str(caught.value)
    open_socket(host, 0, open_to_others=True).close()


def keys(path, *scopes):
    path.write_text(
        yaml.safe_dump([{"name": "a", "sha256": digest_of(new_key()), "scopes": list(scopes)}])
    )
    return str(path)


def test_administration_needs_an_admin_key(tmp_path):
    for api in (
        {"admin": {"port": 0}},
        {"admin": {"port": 0}, "keys_file": keys(tmp_path / "a", "predict", "metrics")},
    ):
        with pytest.raises(SettingsError, match=r"api.admin needs api.keys_file .* --scope admin"):
            AdminServer(Client(api=api).context)
    admin = AdminServer(
        Client(api={"admin": {"port": 0}, "keys_file": keys(tmp_path / "b", "admin")}).context
    )
    admin._socket.close()


def test_unusable_certificates_are_refused_as_a_setting(tmp_path):
    words = (
        "req -x509 -newkey rsa:2048 -subj /CN=x -days 1 -keyout key -out cert -passout pass:secret"
    )
    subprocess.run(["openssl", *words.split()], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "junk").write_text("junk")
    for cert, key in (("cert", "key"), ("junk", "key"), ("cert", "junk")):
        tls = Api(tls={"cert_file": tmp_path / cert, "key_file": tmp_path / key}).tls
        with pytest.raises(SettingsError, match=r"api.tls: .* PEM"):
            _tls_context(tls)
