"""Kafka behind TLS and SASL: a broker with our own certificate and a SCRAM user."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ResourcePattern,
    ResourceType,
)

from service.embedded.process import HOST, EmbeddedError
from service.sources import create_log, open_sink, open_source
from service.sources.base import Entry, Options, SourceUnavailableError
from service.sources.kafka.listener import other_protocol
from tests.chaos.kafka_secured import PASSWORD, PROTOCOLS, secured_broker
from tests.service.sources.polling import take, values

pytestmark = pytest.mark.kafka
CLIENTS = ["kafka-python", "confluent"]


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    started = secured_broker(tmp_path_factory.mktemp("secured"))
    try:
        broker = started.__enter__()
    except EmbeddedError as error:
        pytest.skip(str(error).partition("\n")[0])
    with broker.admin() as admin:
        group = ResourcePattern(ResourceType.GROUP, "forbidden")
        admin.create_acls([ACL("User:ann", "*", ACLOperation.ALL, ACLPermissionType.DENY, group)])
    yield broker
    started.__exit__(None, None, None)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [
        ("SSL", "PLAIN"),
        ("SASL_PLAINTEXT", "PLAIN"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
        ("SASL_SSL", "SCRAM-SHA-512"),
    ],
)
def test_a_topic_is_created_written_and_read_over_each_protocol(
    secured, client, protocol, mechanism
):
    url = secured.url(protocol, f"{client}-{protocol}-{mechanism}")
    options = Options(
        client=client,
        on_data_loss="earliest",
        security=secured.security(protocol, mechanism=mechanism),
    )
    create_log(url, options)
    with closing(open_sink(url, options)) as sink:
        sink.append([Entry(b"one"), Entry(b"two"), Entry(b"three")])
    with closing(open_source(url, "earliest", options)) as source:
        assert values(take(source, 2)) == [b"one", b"two"]
        source.seek(source.bookmark())
        assert values(take(source, 1)) == [b"three"]
    assert PASSWORD not in repr(options)


@pytest.mark.parametrize(
    ("client", "protocol"), [("kafka-python", "SASL_SSL"), ("confluent", "SASL_PLAINTEXT")]
)
def test_a_wrong_password_is_reported_as_such(secured, client, protocol, caplog):
    options = Options(client=client, security=secured.security(protocol, password="canary-wrong"))
    check_reported(secured.url(protocol), options, "authentication failed at .* for user ann")
    assert "canary" not in caplog.text


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("ca_file", ["stranger.pem", None])
def test_an_untrusted_certificate_is_reported_as_such(secured, client, ca_file):
    trusted = ca_file and secured.folder / ca_file
    options = Options(client=client, security=secured.security("SASL_SSL", ca_file=trusted))
    check_reported(
        secured.url("SASL_SSL"), options, "TLS failed: the certificate of .* does not fit"
    )


@pytest.mark.parametrize("client", CLIENTS)
def test_a_forbidden_group_does_not_prevent_reading(secured, client):
    url = secured.url("SASL_PLAINTEXT", f"{client}-without-group")
    options = Options(client=client, group="forbidden", security=secured.security("SASL_PLAINTEXT"))
    create_log(url, options)
    with closing(open_sink(url, options)) as sink:
        sink.append([Entry(b"%d" % number) for number in range(20)])
    with closing(open_source(url, "earliest", options)) as source:
        read = []
        for _ in range(20):
            read += take(source, 1)
            source.checkpointed(source.bookmark().positions)
        assert values(read) == [b"%d" % number for number in range(20)]
        for _ in range(5):  # long enough for the refusal to arrive
            assert source.poll(0.1, 1) == []
            source.checkpointed(source.bookmark().positions)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("theirs", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_tls_to_a_listener_without_tls_is_reported(secured, client, theirs):
    options = Options(client=client, security=secured.security("SSL"))
    check_reported(secured.url(theirs), options, "TLS failed at .*; security.protocol asks for TLS")


@pytest.mark.parametrize(
    ("client", "ours", "theirs", "told"),
    [
        (
            "kafka-python",
            None,
            "SSL",
            "speaks SSL, but there is no security: set security.protocol to SSL",
        ),
        (
            "confluent",
            "SASL_SSL",
            "SSL",
            "speaks SSL, but security.protocol is SASL_SSL: set security.protocol to SSL",
        ),
    ],
)
def test_a_listener_of_another_protocol_is_reported_with_the_setting(
    secured, client, ours, theirs, told
):
    """The client only says that it got no answer; our line names the setting and its
    right value.
    """
    options = Options(client=client, security=ours and secured.security(ours))
    check_reported(secured.url(theirs), options, told)


@pytest.mark.parametrize("theirs", PROTOCOLS)
def test_the_protocol_of_every_listener_is_recognised(secured, theirs):
    bootstrap = secured.url(theirs).removeprefix("kafka://").partition("/")[0]
    for ours in (None, *PROTOCOLS):
        told = other_protocol(bootstrap, ours and secured.security(ours))
        assert (told is None) == (ours == theirs)
        assert told is None or f"speaks {theirs}, but" in str(told)
    assert "leave security out" in str(
        other_protocol(secured.broker.bootstrap, secured.security(theirs))
    )
    assert other_protocol(secured.broker.bootstrap, None) is None


@pytest.mark.parametrize("client", CLIENTS)
def test_a_certificate_for_another_host_is_reported_as_such(secured, client):
    options = Options(client=client, security=secured.security("SSL"))
    url = secured.url("SSL").replace(HOST, "localhost")
    check_reported(
        url, options, "the certificate of localhost:.* is for another host: name the broker in url"
    )


def test_the_password_file_is_read_at_each_connection(secured, tmp_path):
    path = tmp_path / "password"
    path.touch()
    url = secured.url("SASL_SSL", "by-file")
    options = Options(security=secured.security("SASL_SSL", password=None, password_file=path))
    path.unlink()  # as while a secret is being replaced
    check_reported(url, options, "password_file .* cannot be read")
    path.write_text(f"{PASSWORD}\nand a remark\n")
    create_log(url, options)
    with closing(open_source(url, "earliest", options)) as source:
        assert source.lag() == {"0": 0}


def test_missing_certificate_files_are_reported(secured, tmp_path):
    (tmp_path / "none.pem").touch()
    options = Options(security=secured.security("SSL", ca_file=tmp_path / "none.pem"))
    (tmp_path / "none.pem").unlink()
    check_reported(secured.url("SSL"), options, "none.pem cannot be used")


def check_reported(url, options, words):
    """Each use fails with one line that has the reason and no secret. They run at once, since each
    waits for seconds.
    """
    with ThreadPoolExecutor() as pool:
        uses = [
            pool.submit(open_source, url, "earliest", options),
            pool.submit(open_sink, url, options),
            pool.submit(create_log, url, options),
        ]
    for use in uses:
        with pytest.raises(SourceUnavailableError, match=words) as told:
            use.result()
        assert "canary" not in str(told.value)
        assert "\n" not in str(told.value)
