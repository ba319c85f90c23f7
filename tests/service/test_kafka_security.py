"""Kafka behind TLS and SASL: a broker with a certificate of our own making and a SCRAM user."""

import subprocess
from contextlib import closing

import pytest
from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from test_source_contract import take, values

from service.embedded.kafka import kafka_broker
from service.embedded.process import HOST, EmbeddedError, free_port
from service.log_settings import Security
from service.sources import create_log, open_sink, open_source
from service.sources.contract import Entry, Options, SourceDown

pytestmark = pytest.mark.kafka
CLIENTS = ["kafka-python", "confluent"]
PASSWORD = "canary-8f3a"
LOGIN = "org.apache.kafka.common.security"


def openssl(folder, *words):
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def make_ca(folder, name):
    subject = ["-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    openssl(
        folder,
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        *subject,
        "-keyout",
        f"{name}.key",
        "-out",
        f"{name}.pem",
    )


def make_certificate(folder, ca, name):
    openssl(
        folder,
        "req",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        f"/CN={name}",
        "-keyout",
        f"{name}.key",
        "-out",
        f"{name}.csr",
    )
    (folder / "names").write_text(f"subjectAltName=IP:{HOST}\nauthorityKeyIdentifier=keyid\n")
    signer = ["-CA", f"{ca}.pem", "-CAkey", f"{ca}.key", "-CAcreateserial", "-extfile", "names", "-days", "2"]
    openssl(folder, "x509", "-req", "-in", f"{name}.csr", *signer, "-out", f"{name}.pem")


class Secured:
    """The addresses of the broker's listeners, and the folder of certificates."""

    def __init__(self, folder, ports):
        self.folder = folder
        self.ports = ports

    def url(self, protocol, topic="events"):
        return f"kafka://{HOST}:{self.ports[protocol]}/{topic}"

    def security(self, protocol, **other):
        words = {"protocol": protocol, "mechanism": "SCRAM-SHA-512"}
        if protocol.startswith("SASL"):
            words |= {"username": "ann", "password": PASSWORD}
        if protocol.endswith("SSL"):
            words |= {"ca_file": self.folder / "ca.pem"}
        return Security(**(words | other))


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("secured")
    make_ca(folder, "ca")
    make_ca(folder, "stranger")
    make_certificate(folder, "ca", "broker")
    openssl(
        folder,
        "pkcs12",
        "-export",
        "-in",
        "broker.pem",
        "-inkey",
        "broker.key",
        "-passout",
        "pass:storepass",
        "-out",
        "broker.p12",
    )
    ports: dict[str, int] = {}
    for protocol in ("SSL", "SASL_PLAINTEXT", "SASL_SSL"):
        while (port := free_port()) in ports.values():
            pass
        ports[protocol] = port
    listeners = ",".join(f"{protocol}://{HOST}:{port}" for protocol, port in ports.items())
    scram, plain = f"{LOGIN}.scram.ScramLoginModule required;", f"{LOGIN}.plain.PlainLoginModule required"
    jaas = {
        f"listener.name.{listener}.{mechanism}.sasl.jaas.config": module
        for listener in ("sasl_ssl", "sasl_plaintext")
        for mechanism, module in {
            "scram-sha-512": scram,
            "scram-sha-256": scram,
            "plain": f'{plain} user_ann="{PASSWORD}";',
        }.items()
    }
    extra = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
        + ",".join(f"{p}:{p}" for p in ports),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(folder / "broker.p12"),
        "ssl.keystore.password": "storepass",
        "ssl.key.password": "storepass",
        **jaas,
    }
    broker = kafka_broker(folder / "kafka", extra=extra)
    try:
        started = broker.__enter__()
    except EmbeddedError as error:
        pytest.skip(str(error).partition("\n")[0])
    with KafkaAdminClient(bootstrap_servers=started.bootstrap) as admin:
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            told = admin.alter_user_scram_credentials([UserScramCredentialUpsertion("ann", mechanism, PASSWORD, 4096)])
            assert told == {"ann": None}
        group = ResourcePattern(ResourceType.GROUP, "forbidden")
        admin.create_acls([ACL("User:ann", "*", ACLOperation.ALL, ACLPermissionType.DENY, group)])
    yield Secured(folder, ports)
    broker.__exit__(None, None, None)


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
def test_topic_sink_and_source(secured, client, protocol, mechanism):
    url = secured.url(protocol, f"{client}-{protocol}-{mechanism}")
    options = Options(client=client, on_lost="earliest", security=secured.security(protocol, mechanism=mechanism))
    create_log(url, options)
    with closing(open_sink(url, options)) as sink:
        sink.append([Entry(b"one"), Entry(b"two"), Entry(b"three")])
    with closing(open_source(url, "earliest", options)) as source:
        assert values(take(source, 2)) == [b"one", b"two"]
        source.seek(source.bookmark())
        assert values(take(source, 1)) == [b"three"]
    assert PASSWORD not in repr(options)


@pytest.mark.parametrize(("client", "protocol"), [("kafka-python", "SASL_SSL"), ("confluent", "SASL_PLAINTEXT")])
def test_wrong_password_is_told_as_such(secured, client, protocol, caplog):
    options = Options(client=client, security=secured.security(protocol, password="canary-wrong"))
    check_told(secured.url(protocol), options, "authentication failed at .* for user ann")
    assert "canary" not in caplog.text


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("ca_file", ["stranger.pem", None])
def test_certificate_of_a_stranger_is_told_as_such(secured, client, ca_file):
    trusted = ca_file and secured.folder / ca_file
    options = Options(client=client, security=secured.security("SASL_SSL", ca_file=trusted))
    check_told(secured.url("SASL_SSL"), options, "TLS failed: the certificate of .* does not fit")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_group_that_is_not_allowed_hinders_no_reading(secured, client):
    url = secured.url("SASL_PLAINTEXT", f"{client}-without-group")
    options = Options(client=client, group="forbidden", security=secured.security("SASL_PLAINTEXT"))
    create_log(url, options)
    with closing(open_sink(url, options)) as sink:
        sink.append([Entry(b"%d" % number) for number in range(20)])
    with closing(open_source(url, "earliest", options)) as source:
        read = []
        for _ in range(20):
            read += take(source, 1)
            source.settled(source.bookmark().positions)
        assert values(read) == [b"%d" % number for number in range(20)]
        for _ in range(5):  # long enough for the refusal to come back
            assert source.poll(0.1, 1) == []
            source.settled(source.bookmark().positions)


def test_tls_to_a_plain_listener_is_told(secured):
    options = Options(security=secured.security("SSL"))
    check_told(secured.url("SASL_PLAINTEXT"), options, "TLS failed|no Kafka broker")


def test_password_file_is_read_when_connecting(secured, tmp_path):
    path = tmp_path / "password"
    path.touch()
    url = secured.url("SASL_SSL", "by-file")
    options = Options(security=secured.security("SASL_SSL", password=None, password_file=path))
    path.unlink()  # as while a secret is being replaced
    check_told(url, options, "password_file .* cannot be read")
    path.write_text(f"{PASSWORD}\nand a remark\n")
    create_log(url, options)
    with closing(open_source(url, "earliest", options)) as source:
        assert source.lag() == {"0": 0}


def test_files_that_are_not_there_are_told(secured, tmp_path):
    (tmp_path / "none.pem").touch()
    options = Options(security=secured.security("SSL", ca_file=tmp_path / "none.pem"))
    (tmp_path / "none.pem").unlink()
    check_told(secured.url("SSL"), options, "none.pem cannot be used")


def check_told(url, options, words):
    """One line, with the reason and without the secret, from whatever connects."""
    for use in (
        lambda: open_source(url, "earliest", options),
        lambda: open_sink(url, options),
        lambda: create_log(url, options),
    ):
        with pytest.raises(SourceDown, match=words) as told:
            use()
        assert "canary" not in str(told.value)
        assert "\n" not in str(told.value)
