"""With too little memory the status is not 0, and one line says so."""

import resource
import subprocess
import sys

import pytest
import yaml

import service.__main__
from tests.integration.processes import free_port
from tests.zygote import environment

MIB = 1024 * 1024
WORDS = ("memory", "Memory")


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "model.yaml"
    values = {
        "name": "m",
        "learner": "pa1",
        "source": {"url": f"file:{tmp_path}/no.jsonl"},
        "store": {"url": "redis://127.0.0.1:1/0"},
        "api": {"port": free_port()},
    }
    path.write_text(yaml.safe_dump(values))
    return path


def limit_memory(memory, stack=None):
    def limit():
        if stack is not None:
            resource.setrlimit(resource.RLIMIT_STACK, (stack * MIB, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_AS, (memory * MIB, memory * MIB))

    return limit


@pytest.mark.parametrize(
    ("memory", "stack"), [(120, None), (160, None), (250, None), (600, 600)], ids=str
)
def test_too_little_memory_ends_with_an_error_status_and_one_line(config, memory, stack):
    """If stacks have the size of the limit no thread can start, as on a machine with many cores:
    OpenBLAS raises SIGINT.
    """
    done = subprocess.run(
        [sys.executable, "-m", "service", "run", "--config", str(config)],
        preexec_fn=limit_memory(memory, stack),
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert done.returncode not in {0, 2, 3}, done.stderr[-2000:]
    lines = done.stderr.splitlines()
    assert any(word in lines[-1] for word in WORDS), done.stderr[-2000:]
    assert not any("Traceback" in line for line in lines)


def test_an_interrupt_while_a_command_is_loaded_is_an_error(config, monkeypatch, capsys):
    """OpenBLAS raises SIGINT when it has no memory; under load the signal may come at
    any moment.
    """

    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(service.__main__.importlib, "import_module", interrupt)
    assert service.__main__.main(["run", "--config", str(config)]) == 1
    assert "memory" in capsys.readouterr().err
