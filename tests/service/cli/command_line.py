"""Run a command in the test's own process, and check the form of a refusal."""

from service.__main__ import main


def check_refused(outcome: tuple[int, str, str], *words: str) -> None:
    status, out, err = outcome
    assert (status, out) == (2, ""), err
    assert err.startswith("onepass")
    assert err.endswith("\n")
    assert err.count("\n") == 1, err
    for word in words:
        assert word in err


def run_command(capsys, *arguments: str) -> tuple[int, str, str]:
    """Run a command without a new process, which would cost a second; return its status, output and
    errors.
    """
    try:
        status = main([str(argument) for argument in arguments])
    except SystemExit as stopped:
        status = stopped.code
    return status, *capsys.readouterr()


def run_successfully(capsys, *arguments: str) -> str:
    status, out, err = run_command(capsys, *arguments)
    assert status == 0, err
    return out
