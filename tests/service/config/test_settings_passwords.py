"""No output shows a password of the configuration."""

import pytest

from service.config.settings import Address, Settings, without_password
from tests.looped import looped
from tests.service.config.example_settings import (
    complaint,
    loaded_fixture,  # noqa: F401  # a fixture
)

PASSWORD = "hunter2-canary"

URLS = [
    f"redis://:{PASSWORD}@h:6379/0",
    f"redis://user:{PASSWORD}@h:6379/0/stream",
    f"rediss://user:x@{PASSWORD}@h:6379/0",
    f"redis://:x/{PASSWORD}@h:6379/0",
    f"redis://h:6379/0?password={PASSWORD}",
    f"redis://h:6379/0?db=1&password={PASSWORD}&x=1",
]


@looped("url", URLS)
def test_an_address_is_shown_without_its_password(url):
    assert PASSWORD not in without_password(url)
    assert "@h:6379" in without_password(url) or "//h:6379" in without_password(url)


def test_an_address_without_a_password_is_shown_whole():
    for url in (
        "redis://h:6379/0",
        "kafka://a:1,b:2/topic",
        "file:///a/b.jsonl",
        "redis://h:1/0/s?protocol=3",
    ):
        assert without_password(url) == url


@looped("url", URLS)
def test_printed_settings_show_no_password(loaded, url):
    settings = loaded(
        {
            "source": {"url": url},
            "dead_letters": {"url": url},
            "store": {"url": url, "password": PASSWORD},
        }
    )
    assert settings.store.url == url, "the client needs the unchanged URL"
    assert settings.store.password.get_secret_value() == PASSWORD
    shown = [
        repr(settings),
        str(settings),
        str(settings.model_dump()),
        settings.model_dump_json(),
        repr(settings.store),
    ]
    assert all(PASSWORD not in text for text in shown)


def test_every_url_setting_is_hidden():
    """A new `url: str` beside these would show its password."""
    for field in Settings.model_fields.values():
        url = getattr(field.annotation, "model_fields", {}).get("url")
        assert url is None or (url.repr is False and url.metadata == list(Address.__metadata__[1:]))


@looped("spelled", ["0123", "yes", "{", "a: b", "# x", " padded ", "'quoted'"])
def test_a_password_variable_is_used_verbatim(loaded, spelled):
    assert (
        loaded(environ={"ONEPASS_STORE__PASSWORD": spelled}).store.password.get_secret_value()
        == spelled
    )


@pytest.mark.parametrize("changes", [{"port": PASSWORD}, {"max_body_bytes": PASSWORD}])
def test_an_error_does_not_repeat_the_value(loaded, changes):
    """A value under the wrong key may be a secret."""
    assert PASSWORD not in complaint(loaded, {"api": changes})
