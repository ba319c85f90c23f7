"""A command run in the test's own process, and the form of a refusal."""

from service.__main__ import main


def check_refused(outcome: tuple[int, str, str], *words: str) -> None:
    status, out, err = outcome
    assert (status, out) == (2, ""), err
    assert err.startswith("onepass")
    assert err.endswith("\n")
    assert err.count("\n") == 1, err
    for word in words:
        assert word in err


def asked(capsys, *arguments: str) -> tuple[int, str, str]:
    """The same without a process of its own, which costs a second: for the many ways to be
    wrong.
    """
    try:
        status = main([str(argument) for argument in arguments])
    except SystemExit as stopped:
        status = stopped.code
    return status, *capsys.readouterr()


def said(capsys, *arguments: str) -> str:
    status, out, err = asked(capsys, *arguments)
    assert status == 0, err
    return out
