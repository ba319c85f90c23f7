"""Which tests may run beside others: those that neither look at a clock nor start a server.

A new file outside of `learners` runs alone until it is named here.
"""

from pathlib import Path

TESTS = Path(__file__).parent
BESIDE, ALONE = "beside", "alone"

FOLDER = TESTS / "learners"
FILES = {
    TESTS / "test_architecture.py",
    TESTS / "test_install.py",
    TESTS / "test_looped.py",
    TESTS / "test_run.py",
    *(
        TESTS / "service" / f"{name}.py"
        for name in (
            "api/test_schemathesis",
            "checkpoint/test_dirty_slots",
            "checkpoint/test_export",
            "checkpoint/test_lineage",
            "checkpoint/test_snapshot",
            "cli/replay/test_passes",
            "config/test_diff",
            "config/test_renamed",
            "config/test_settings",
            "consumer/test_recovery",
            "consumer/test_worker",
            "features/test_decoder",
            "features/test_labels",
            "features/test_slot_names",
            "files/test_drift_phases",
            "files/test_files",
            "files/test_files_refused",
            "files/test_schema",
            "model/test_calibration",
            "model/test_model",
            "model/test_monitor",
            "monitoring/test_metrics",
            "operations/test_rollback",
            "server/test_api_keys",
            "sources/test_file",
            "storage/test_retention",
            "test_deploy",
            "test_plotting",
            "test_kernel_cache",
            "test_locks",
        )
    ),
}
SERVERS = {"kafka", "redis_server", "system_redis"}


def in_part(item, part):
    beside = (FOLDER in item.path.parents or item.path in FILES) and not SERVERS.intersection(
        item.fixturenames
    )
    return beside == (part == BESIDE)


def group(item):
    """Tests that one worker takes: those of a learner's kind, so that its kernels are compiled
    once.

    A file of the learners without kinds is a group of its own, and so is every other file.
    """
    kind = getattr(item, "callspec", None) and item.callspec.params.get("kind")
    return kind if isinstance(kind, str) and FOLDER in item.path.parents else item.path.stem
