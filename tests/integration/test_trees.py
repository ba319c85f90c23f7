"""Trees through a running service: posted, learned, predicted, rejected with their position,
restored, and replayed.
"""

import json
from contextlib import closing

from redis import Redis

from service.sources import open_sink
from service.sources.base import Entry
from tests.integration.processes import Process, onepass, running, write_config
from tests.waiting import wait_for

MODEL = {
    "learner": {
        "kind": "one_vs_rest",
        "max_classes": 3,
        "base": "k-perceptron:kernel=tree,max_support=200,nodes=8",
    },
    "features": {"bits": 0, "tree": "tree"},
    "label": {"classes": "grow", "max_classes": 3},
}
BAD = ["(S (A x)", '(S x) "secret"', None]
CHARACTERS = [b"0", b"6", None]


def event(n):
    """Every tenth event has no tree; in some trees the determiner shows the class."""
    tree = (
        BAD[n // 10 % 3]
        if n % 10 == 7
        else f"(S (NP (D {'abc'[n % 3]}) (N n{n * 7 % 11})) (VP v{n * 3 % 13}))"
    )
    label = ("ham", "eggs", "tea")[n % 3 if n % 4 else 0]
    return json.dumps(
        {"tree": tree, "label": label} | ({"features": {"a": n}} if n % 2 else {})
    ).encode()


EVENTS = [event(n) for n in range(300)]


def test_trees_are_learned_restored_and_replayed_to_the_bit(redis_url, tmp_path):
    log = f"{redis_url}/trees"
    config = write_config(tmp_path / "c.yaml", log, redis_url, lease=0.5, **MODEL)
    with closing(open_sink(log)) as sink:
        sink.append([Entry(value) for value in EVENTS[:150]])
        with running("run", config) as process:
            process.answers("/readyz", 200)
            wait_for(lambda: process.get("/status")[1]["events"] == 135, "half is learned")
            assert process.get("/status")[1]["rejects"] == 15
            status, answer = process.get("/predict", b'{"tree": "(S (NP (D b) (N n3)) (VP v1))"}')
            assert (status, answer["label"]) == (200, "eggs")
            status, answer = process.get("/events", b'{"tree": "(S (A", "label": "tea"}')
            assert (status, answer["error"]["code"]) == (422, "tree")
            assert answer["error"]["message"].endswith("character 3")
            wait_for(lambda: process.get("/status")[1]["checkpoint"]["generation"], "a checkpoint")
            process.kill()
        sink.append([Entry(value) for value in EVENTS[150:]])
    status, output = Process(["learn", "--until-end"], config).finish()
    final = json.loads(output)
    assert status == 0
    assert (final["events"], final["rejects"]) == (270, 30)

    path = tmp_path / "events.jsonl"
    path.write_bytes(b"\n".join(EVENTS) + b"\n")
    replayed = json.loads(onepass("replay", path, "--config", config, "--json").stdout)
    same = ("events", "errors", "rejects_by_reason")
    assert [replayed[name] for name in same] == [final[name] for name in same]
    assert replayed["state_digest"] == final["checkpoint"]["state_digest"]
    assert json.loads(onepass("audit", "--config", config, "--json").stdout)["identical"]

    with Redis.from_url(redis_url) as client:
        letters = {fields[b"h:position"]: fields for _, fields in client.xrange("trees.dead")}
    assert len(letters) == 30
    named = [b"value", b"h:reason", b"h:character"]
    kept = [
        tuple(map(letters[at].get, named))
        for at in sorted(letters, key=lambda at: [*map(int, at.split(b"-"))])
    ]
    assert kept == [(EVENTS[n], b"tree", CHARACTERS[n // 10 % 3]) for n in range(7, 300, 10)]
