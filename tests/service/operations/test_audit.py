"""`onepass audit` rebuilds a checkpoint's model from its log, or says why it cannot."""

import json
import warnings
from contextlib import closing

import pytest
import yaml
from redis import Redis

from service.checkpoint import lineage as lineage_module
from service.checkpoint.lineage import Frozen
from service.sources import create_log, open_sink
from service.sources.base import Entry
from tests.service.cli.command_line import run_command
from tests.service.operations.checkpoint_history import World, events, learn_to_end

with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
    from kafka import KafkaAdminClient, TopicPartition


@pytest.fixture
def world(tmp_path, redis_url):
    with closing(World(tmp_path, redis_url)) as world:
        for _ in range(3):
            world.learn(60)
        yield world


def audit(capsys, world, *arguments, status=0):
    got, out, err = run_command(capsys, "audit", "--config", world.config, *arguments)
    assert got == status, err
    return out or err


def test_audit_rebuilds_the_same_model(world, capsys):
    out = json.loads(audit(capsys, world, "--json"))
    assert out["identical"]
    assert out["different"] == []
    assert (out["generation"], out["records"], out["runs"]) == (3, 180, 1)
    assert out["checkpoint"] == out["rebuilt"]
    assert out["rebuilt"]["events"] == 171
    assert out["rebuilt"]["rejects_by_reason"] == {"malformed": 9}
    older = json.loads(audit(capsys, world, "--generation", 1, "--json"))
    assert (older["identical"], older["records"]) == (True, 60)
    assert older["rebuilt"]["state_digest"] != out["rebuilt"]["state_digest"]
    words = audit(capsys, world)
    assert words.startswith("generation 3: 180 records in 1 run\n")
    assert words.endswith("\nidentical\n")
    assert words.count(out["rebuilt"]["state_digest"]) == 2


def test_audit_follows_rollbacks_and_freezes(world, capsys):
    line = ("--to", 1, "--keep-offsets", "--config", world.config)
    assert run_command(capsys, "checkpoints", "rollback", *line)[0] == 0
    world.begin()
    world.recorder.note(Frozen(4, 1.0, 2.0))
    world.learn(40)
    out = json.loads(audit(capsys, world, "--json"))
    assert out["identical"]
    assert (out["records"], out["runs"]) == (100, 2)
    line = ("--to", 2, "--rewind", "--config", world.config)
    assert run_command(capsys, "checkpoints", "rollback", *line)[0] == 0
    world.begin()
    world.learn(40)
    out = json.loads(audit(capsys, world, "--json"))
    assert out["identical"]
    assert (out["records"], out["runs"]) == (160, 2)


def test_audit_needs_all_segments_of_the_history(world, capsys, monkeypatch):
    monkeypatch.setattr(lineage_module, "SEALED_AFTER", 1)
    for generation in range(3):
        world.recorder.note(Frozen(generation, 1.0, 2.0))
        world.learn(20)
    assert world.recorder.lineage()[0].sealed
    assert json.loads(audit(capsys, world, "--json"))["identical"]
    with Redis.from_url(world.values["store"]["url"]) as client:
        client.delete(*client.scan_iter("{m:m}:l:*"))
    assert "segment" in audit(capsys, world, status=3)


def test_audit_notices_a_log_with_other_events(world, capsys):
    lines = world.path.read_text().splitlines()
    lines[3] = (
        lines[3].replace("spam", "ham") if "spam" in lines[3] else lines[3].replace("ham", "spam")
    )
    world.path.write_text("\n".join(lines) + "\n")
    out = json.loads(audit(capsys, world, "--json", status=1))
    assert not out["identical"]
    assert {"state_digest", "checksum"} <= set(out["different"])
    assert "different: state_digest, judgement_digest, checksum" in audit(capsys, world, status=1)


def test_audit_notices_a_log_that_became_shorter(world, capsys):
    world.path.write_text("\n".join(events(100)) + "\n")
    err = audit(capsys, world, status=3)
    assert "partition 0 no longer has all of the 180 records from position 0 to 180" in err
    assert err.count("\n") == 1


def test_audit_refuses_wrong_usage_and_wrong_settings(world, capsys, tmp_path):
    assert "generation 7 is not kept; the nearest are 1, 2, 3" in audit(
        capsys, world, "--generation", 7, status=2
    )
    for extra in (
        (world.path,),
        ("--test", world.path),
        ("--shuffle", "0"),
        ("--learner", "pa1"),
        ("--limit", "3"),
    ):
        assert "unrecognized arguments" in audit(capsys, world, *extra, status=2)
    for line, word in {
        ("audit",): "--config",
        ("replay",): "DATA",
        ("replay", world.path, "--generation", "1"): "--generation",
        (
            "replay",
            "--config",
            world.config,
            "--lineage",
        ): "--lineage is now the command `onepass audit`",
    }.items():
        status, _, err = run_command(capsys, *line)
        assert status == 2
        assert word in err
        assert err.count("\n") == 1
    other = tmp_path / "other.jsonl"
    other.write_text("{}\n")
    changes = {
        3: {"source": {"url": f"file://{other}"}},
        2: {"learner": "pa1:C=0.3"},
        1: {"store": {"url": "redis://127.0.0.1:1/0"}},
    }
    for status, change in changes.items():
        world.config.write_text(yaml.safe_dump(world.values | change))
        assert audit(capsys, world, status=status).count("\n") == 1


def make_world(tmp_path, redis_url, source):
    with closing(World(tmp_path, redis_url)) as world:
        values = world.values | {
            "source": {"url": source},
            "api": {"port": 0},
            "max_poll_records": 7,
        }
        world.config.write_text(yaml.safe_dump(values))
    return world


def test_audit_reads_a_redis_stream(tmp_path, redis_url, capsys):
    world = make_world(tmp_path, redis_url, f"{redis_url}/events")
    with Redis.from_url(redis_url) as client:
        for half in (events(150), events(250)):
            for line in half:
                client.xadd("events", {"value": line})
            status = learn_to_end(capsys, world.config)
        out = json.loads(audit(capsys, world, "--json"))
        assert out["identical"]
        assert out["records"] == 400
        assert out["rebuilt"]["state_digest"] == status["checkpoint"]["state_digest"]
        client.xtrim("events", maxlen=390, approximate=False)
        assert "partition 0 no longer has all of the 400 records from position 0-0" in audit(
            capsys, world, status=3
        )
        client.delete("events")
        assert "partition 0 no longer has all" in audit(capsys, world, status=3)


def test_audit_reads_a_topic_of_several_partitions(tmp_path, redis_url, kafka, make_topic, capsys):
    url = make_topic(3)
    world = make_world(tmp_path, redis_url, url)
    for half in (events(200), events(400)):
        with closing(open_sink(url)) as sink:
            sink.append([Entry(line.encode(), str(n % 17).encode()) for n, line in enumerate(half)])
        status = learn_to_end(capsys, world.config)
    out = json.loads(audit(capsys, world, "--json"))
    assert out["identical"]
    assert out["records"] == 600
    assert out["runs"] > 3, "the runs of the partitions must alternate"
    assert out["rebuilt"]["state_digest"] == status["checkpoint"]["state_digest"]
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap) as admin:
        admin.delete_records({TopicPartition(url.rpartition("/")[2], 1): 5})
    err = audit(capsys, world, status=3)
    assert "partition 1 no longer has all of the" in err
    assert "from position 0 " in err
    assert "it holds 5 to" in err
    assert "on_data_loss" not in err, "this advice is only for a learner"
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap) as admin:
        admin.delete_records({TopicPartition(url.rpartition("/")[2], 1): -1})
    oldest = json.loads(
        run_command(capsys, "checkpoints", "list", "--json", "--config", world.config)[1]
    )[-1]["generation"]
    line = ("checkpoints", "rollback", "--to", oldest, "--config", world.config)
    status, _, err = run_command(capsys, *line, "--rewind")
    assert status == 2
    assert "what follows the checkpoint was deleted; give --keep-offsets" in err
    assert run_command(capsys, *line, "--rewind", "--force")[0] == 0
    assert run_command(capsys, *line, "--keep-offsets")[0] == 0


def test_audit_notices_a_recreated_topic(tmp_path, redis_url, kafka, make_topic, capsys):
    """Whether it is shorter or longer, the message says that it is another topic."""
    url = make_topic(1)
    world = make_world(tmp_path, redis_url, url)
    with closing(open_sink(url)) as sink:
        sink.append([Entry(line.encode()) for line in events(100)])
    learn_to_end(capsys, world.config)
    topic = url.rpartition("/")[2]
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap) as admin:
        admin.delete_topics([topic])
    create_log(url)
    for count in (40, 200):
        with closing(open_sink(url)) as sink:
            sink.append([Entry(line.encode()) for line in events(count)])
        err = audit(capsys, world, status=3)
        assert "it is another topic than the one that was read" in err
        assert err.count("\n") == 1


def test_audit_notices_a_recreated_stream(tmp_path, redis_url, capsys):
    world = make_world(tmp_path, redis_url, f"{redis_url}/events")
    with Redis.from_url(redis_url) as client:
        for line in events(100):
            client.xadd("events", {"value": line})
        learn_to_end(capsys, world.config)
        client.delete("events")
        client.xadd("events", {"value": "x"}, id="1-1")
        assert "it is another stream" in audit(capsys, world, status=3)
