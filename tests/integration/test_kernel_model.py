"""A kernel model in processes on a real Redis: learned, checkpointed, followed by a replica,
explained, resumed.
"""

import json
from itertools import islice

import pytest

from service.embedded.payments import payments
from tests.integration.payments import PAYMENT, fill
from tests.integration.processes import Process, running, write_config
from tests.waiting import wait_for

MODEL = {"learner": {"kind": "scaled", "base": {"kind": "k-perceptron", "max_support": 500}}}


def total(explanation):
    rows = sum(one["contribution"] for one in explanation["support"])
    return explanation["constant"] + rows + explanation["omitted"]["contribution"]


def answer(process):
    status, reply = process.get("/explain", PAYMENT)
    assert status == 200, reply
    reply["model"] = reply["model"]["version"]
    return reply


def check_stored_rows(learner, replica, explanation):
    """Learner and replica report the same stored rows, in every reply that lists them."""
    support = replica.get("/status")[1]["support"]
    assert 0 < support["rows"] == explanation["stored"] <= support["room"] == 500
    assert (replica.metrics()["support_rows"], learner.metrics()["support_capacity_rows"]) == (
        support["rows"],
        500,
    )
    weights = replica.get("/weights?top=3")[1]["classes"]
    assert weights == learner.get("/weights?top=3")[1]["classes"]
    assert len(weights[0]["support"]) == 3


def test_a_kernel_model_is_learned_followed_explained_and_resumed(redis_url, tmp_path):
    log = f"{redis_url}/payments"
    events = list(islice(payments(5, 0), 1200))
    fill(log, events[:800])
    config = write_config(tmp_path / "learn.yaml", log, redis_url, **MODEL)
    serve = write_config(tmp_path / "serve.yaml", log, redis_url, **MODEL)
    with running("run", config) as learner, running("serve", serve) as replica:
        for process in (learner, replica):
            wait_for(
                lambda one=process: (one.get("/status")[1] or {}).get("events") == 800, "all events"
            )
        told = answer(learner)
        assert told == answer(replica)
        assert told["model"] == 800
        explanation = told["explanation"]
        assert total(explanation) == pytest.approx(told["score"], abs=1e-9)
        assert {"amount", "country=br"} & {
            one["name"] for row in explanation["support"] for one in row["features"]
        }
        check_stored_rows(learner, replica, explanation)

    fill(log, events[800:])
    straight = write_config(tmp_path / "straight.yaml", log, redis_url, name="straight", **MODEL)
    both = [Process(["learn", "--until-end"], one) for one in (config, straight)]
    ends = [process.finish() for process in both]
    assert [status for status, _ in ends] == [0, 0]
    final, other = [json.loads(output) for _, output in ends]
    assert final["events"] == 1200
    assert other["checkpoint"]["state_digest"] == final["checkpoint"]["state_digest"]
    with running("serve", serve) as replica:
        wait_for(
            lambda: (replica.get("/status")[1] or {}).get("events") == 1200, "the newest generation"
        )
        assert answer(replica)["explanation"]["stored"] == final["support"]["rows"]
