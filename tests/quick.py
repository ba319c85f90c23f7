"""`make quick`: the tests that run within a minute and a half, without servers."""

from tests.lanes import TESTS

SERVERS = {"kafka", "redis_server", "system_redis", "chromium"}
FOLDERS = [
    TESTS / name for name in ("browser", "chaos", "integration", "service/bench", "service/papers")
]
"""Folders whose tests start processes or run over data sets."""
SLOW = [
    TESTS / f"{name}.py"
    for name in (
        "learners/test_budget",
        "learners/test_drift_inputs_alarms",
        "learners/test_drift_inputs_oracle",
        "learners/test_endurance",
        "learners/test_invariants_forgetful_projectron",
        "learners/test_invariants_forgetron",
        "learners/test_invariants_projectron",
        "learners/test_jit",
        "learners/test_law_delta",
        "learners/test_projectron_inverse",
        "learners/test_two_sample",
        "service/api/test_schemathesis",
        "service/checkpoint/test_dirty_slots",
        "service/cli/test_cli_replay",
        "service/consumer/test_worker_faults",
        "service/model/test_calibration",
        "service/model/test_concurrent",
        "service/model/test_monitor",
        "service/server/test_keys_file",
        "service/sources/kafka/test_auth",
        "service/sources/kafka/test_codecs",
        "service/sources/redis_streams/test_loss",
        "service/sources/test_source_contract",
        "service/sources/test_source_kinds",
        "service/storage/test_connection",
        "service/storage/test_known_commits",
        "service/storage/test_redis_errors",
        "service/storage/test_topologies",
        "service/test_kernel_cache",
        "service/test_memory_limits",
        "service/test_plotting",
        "test_architecture",
        "test_lanes",
        "test_zygote",
    )
]
"""Files that take some seconds each, or start their own server."""


def is_quick(item):
    return (
        not SERVERS.intersection(item.fixturenames)
        and item.path not in SLOW
        and not any(folder in item.path.parents for folder in FOLDERS)
    )
