"""Which tests may run beside others: those that neither look at a clock nor start a server.

A new file outside of `learners` runs alone until it is named here.
"""

from pathlib import Path

TESTS = Path(__file__).parent
BESIDE, ALONE = "beside", "alone"

FOLDER = TESTS / "learners"
FILES = {
    TESTS / "test_architecture.py",
    TESTS / "test_run.py",
    *(
        TESTS / "service" / f"test_{name}.py"
        for name in (
            *("bundle", "calibrated", "deploy", "differences", "events", "file_source", "files", "files_refused"),
            *(
                "files_schema",
                "judgement",
                "keys",
                "labels",
                "lineage",
                "metrics",
                "model",
                "names",
                "passes",
                "phases",
            ),
            *("plot", "restart", "rollback", "schemathesis", "settings", "snapshot", "store_schedule", "touched"),
            "worker",
        )
    ),
}
SERVERS = {"kafka", "redis_server", "system_redis"}


def in_part(item, part):
    beside = (FOLDER in item.path.parents or item.path in FILES) and not SERVERS.intersection(item.fixturenames)
    return beside == (part == BESIDE)


def group(item):
    """Tests that one worker takes: those of a rule with all around it, so that its kernels are compiled once."""
    learner = getattr(item, "callspec", None) and item.callspec.params.get("learner")
    while hasattr(learner, "base"):
        learner = learner.base
    return getattr(learner, "kind", item.path.stem)
