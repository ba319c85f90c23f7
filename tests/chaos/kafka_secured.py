"""A Kafka broker with TLS and SASL listeners, our own certificates, and users that can change."""

import subprocess
from contextlib import contextmanager

from kafka import KafkaAdminClient
from kafka.admin import ScramMechanism, UserScramCredentialDeletion, UserScramCredentialUpsertion

from service.config.settings import Security
from service.embedded.kafka import kafka_broker
from service.embedded.process import HOST, free_port

PASSWORD = "canary-8f3a"
LOGIN = "org.apache.kafka.common.security"
PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)


def openssl(folder, *words):
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def make_ca(folder, name):
    subject = ["-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    made = ["-keyout", f"{name}.key", "-out", f"{name}.pem"]
    openssl(folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject, *made)


def make_certificate(folder, ca, name, host=f"IP:{HOST}"):
    """Write a certificate for `host`, signed by `ca`, as PEM and as the key store that a broker
    reads.
    """
    subject, made = ["-subj", f"/CN={name}"], ["-keyout", f"{name}.key", "-out", f"{name}.csr"]
    openssl(folder, "req", "-newkey", "rsa:2048", "-nodes", *subject, *made)
    (folder / "names").write_text(f"subjectAltName={host}\nauthorityKeyIdentifier=keyid\n")
    signer = [
        "-CA",
        f"{ca}.pem",
        "-CAkey",
        f"{ca}.key",
        "-CAcreateserial",
        "-extfile",
        "names",
        "-days",
        "2",
    ]
    openssl(folder, "x509", "-req", "-in", f"{name}.csr", *signer, "-out", f"{name}.pem")
    pair = ["-in", f"{name}.pem", "-inkey", f"{name}.key", "-passout", "pass:storepass"]
    openssl(folder, "pkcs12", "-export", *pair, "-out", f"{name}.p12")


class Secured:
    """A broker, the ports of its listeners, and the folder of its certificates."""

    def __init__(self, folder, ports, broker):
        self.folder = folder
        self.ports = ports
        self.broker = broker

    def url(self, protocol, topic="events"):
        plain = self.broker.bootstrap
        address = plain if protocol == "PLAINTEXT" else f"{HOST}:{self.ports[protocol]}"
        return f"kafka://{address}/{topic}"

    def security(self, protocol, **other):
        words = {"protocol": protocol, "mechanism": "SCRAM-SHA-512"}
        if protocol.startswith("SASL"):
            words |= {"username": "ann", "password": PASSWORD}
        if protocol.endswith("SSL"):
            words |= {"ca_file": self.folder / "ca.pem"}
        return Security(**(words | other))

    def admin(self):
        """Return an admin client on the plain listener."""
        return KafkaAdminClient(bootstrap_servers=self.broker.bootstrap)

    def set_password(self, user, password):
        with self.admin() as admin:
            for mechanism in MECHANISMS:
                change = [UserScramCredentialUpsertion(user, mechanism, password, 4096)]
                assert admin.alter_user_scram_credentials(change) == {user: None}

    def remove(self, user):
        with self.admin() as admin:
            for mechanism in MECHANISMS:
                change = [UserScramCredentialDeletion(user, mechanism)]
                assert admin.alter_user_scram_credentials(change) == {user: None}


@contextmanager
def secured_broker(folder, **other):
    """Start the broker with the SCRAM and PLAIN user `ann`; `other` are additional
    broker settings.
    """
    make_ca(folder, "ca")
    make_ca(folder, "stranger")
    make_certificate(folder, "ca", "broker")
    ports = {}
    for protocol in PROTOCOLS:
        while (port := free_port()) in ports.values():
            pass
        ports[protocol] = port
    with kafka_broker(folder / "kafka", extra=_settings(folder, ports) | other) as started:
        secured = Secured(folder, ports, started)
        secured.set_password("ann", PASSWORD)
        yield secured


def _settings(folder, ports):
    listeners = ",".join(f"{protocol}://{HOST}:{port}" for protocol, port in ports.items())
    scram, plain = (
        f"{LOGIN}.scram.ScramLoginModule required;",
        f"{LOGIN}.plain.PlainLoginModule required",
    )
    modules = {
        "scram-sha-512": scram,
        "scram-sha-256": scram,
        "plain": f'{plain} user_ann="{PASSWORD}";',
    }
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": (
            "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT," + ",".join(f"{p}:{p}" for p in ports)
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(folder / "broker.p12"),
        "ssl.keystore.password": "storepass",
        "ssl.key.password": "storepass",
        **{
            f"listener.name.{listener}.{mechanism}.sasl.jaas.config": module
            for listener in ("sasl_ssl", "sasl_plaintext")
            for mechanism, module in modules.items()
        },
    }
