"""Names of slots travel with the model: from the learner through Redis to a replica, whole and in
deltas.
"""

import json
from itertools import islice

from service.embedded.payments import payments
from tests.integration.payments import PAYMENT, fill
from tests.integration.processes import running, write_config
from tests.waiting import wait_for

LARGE = {
    "features": {"columns": ["amount", "age_days", "hour", "distance_km", "attempts"], "bits": 18}
}
"""Settings of a model that is large enough for deltas."""


def names(process):
    status, reply = process.get("/weights?top=1000")
    assert status == 200
    return {entry["slot"]: entry["name"] for entry in reply["classes"][0]["top"]}


def test_a_replica_names_slots_and_explains(redis_url, tmp_path):
    log = f"{redis_url}/payments"
    fill(log, list(islice(payments(5, 0), 2000)))
    config = write_config(tmp_path / "learn.yaml", log, redis_url, **LARGE)
    replica = write_config(tmp_path / "serve.yaml", log, redis_url, **LARGE)
    with running("learn", config) as learner, running("serve", replica) as serving:
        wait_for(
            lambda: (serving.get("/status")[1] or {}).get("events") == 2000, "the newest generation"
        )
        # The label contradicts the prediction: a mistake, so the weights move.
        late = {"features": {"amount": 99999.0, "brand": "new"}, "label": "fine"}
        fill(log, [json.dumps(late).encode()])
        wait_for(lambda: serving.get("/status")[1]["events"] == 2001, "the delta")
        told = names(serving)
        assert told == names(learner)
        assert {"bias", "amount", "country=br", "brand=new"} <= set(told.values())
        assert None not in told.values()
        status, answer = serving.get("/explain", PAYMENT)
        assert status == 200
        explanation = answer["explanation"]
        assert explanation["names_complete"] is True
        assert {feature["name"] for feature in explanation["features"]} == {
            "amount",
            "attempts",
            "country=br",
        }
        assert learner.get("/explain", PAYMENT)[0] == 404
        assert learner.get("/learners")[0] == serving.get("/learners")[0] == 200
