"""Redis servers with special options, and certificates for them."""

import subprocess
from contextlib import contextmanager
from pathlib import Path

from service.embedded import redis as embedded
from service.embedded.process import HOST, ServerProcess
from service.embedded.redis import READY

EC = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
PLAIN = str(embedded._executable())


@contextmanager
def running(folder: Path, port: int, *options: str, executable: str = PLAIN, ready: bytes = READY):
    """Run a Redis with these options."""
    folder.mkdir()
    command = [
        executable,
        *options,
        "--bind",
        HOST,
        "--dir",
        str(folder),
        "--save",
        "",
        "--daemonize",
        "no",
    ]
    server = ServerProcess("Redis", command, folder / "log", lambda logged: ready in logged)
    server.start()
    server.port = port
    try:
        yield server
    finally:
        server.kill()


def make_certificates(folder: Path) -> None:
    """Write a certificate authority, and its certificate for 127.0.0.1."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    openssl("req", "-x509", *EC, "-nodes", "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=ca")
    openssl("req", *EC, "-nodes", "-keyout", "own.key", "-out", "own.csr", "-subj", "/CN=own")
    (folder / "names").write_text(f"subjectAltName=IP:{HOST}\n")
    sign = [
        "-CA",
        "ca.crt",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-extfile",
        "names",
        "-out",
        "own.crt",
    ]
    openssl("x509", "-req", "-in", "own.csr", *sign)
