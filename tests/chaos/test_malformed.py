"""Ten malformed messages per good one: the weights are those of the good ones alone, and every
reject is counted by reason.
"""

import json
import random
from collections import Counter

from tests.chaos.events import event, read_tally
from tests.chaos.memory import rss_mb
from tests.chaos.scale import FIGURES
from tests.waiting import wait_for

LONGEST, MOST = 20_000, 100
GROWTH_MB = 50.0
END_SECONDS = 900.0


def event_of(features):
    return b'{"features": ' + features + b', "label": "fraud"}'


KINDS = (
    ("malformed", lambda draw: b"\xff" + draw.randbytes(draw.randint(0, 300))),
    ("malformed", lambda draw: event(draw.randint(1, 9))[: -draw.randint(1, 60)]),
    (
        "malformed",
        lambda draw: b"".join(draw.choices([b"", b"17", b'"x"', b"[1, 2]", b"null", b"true"])),
    ),
    ("malformed", lambda _: event_of(b'{"amount": NaN}')),
    ("malformed", lambda _: event_of(b'{"amount": -Infinity}')),
    ("malformed", lambda draw: event_of(b"[" * draw.randint(1, LONGEST - 100))),
    ("malformed", lambda _: event_of(b'{"a\xff": 1}')),
    ("malformed", lambda draw: event(draw.randint(1, 9)).decode().encode("utf-16")),
    ("malformed", lambda draw: event(1) + event(draw.randint(1, 9))),
    ("malformed", lambda _: event_of(b"[1, 2]")),
    (
        "range",
        lambda draw: event_of(
            b'{"amount": %s1e%d}' % (draw.choice([b"", b"-"]), draw.randint(101, 999))
        ),
    ),
    ("range", lambda draw: event_of(b'{"amount": 1' + b"0" * draw.randint(101, 999) + b"}")),
    (
        "type",
        lambda draw: event_of(
            b'{"amount": %s}' % draw.choice([b"null", b'"x"', b"[1]", b'{"a": 1}'])
        ),
    ),
    (
        "type",
        lambda draw: event_of(b'{"country": %s}' % draw.choice([b"null", b'{"a": 1}', b"[[]]"])),
    ),
    (
        "too_many",
        lambda draw: event_of(
            json.dumps(dict.fromkeys(map(str, range(draw.randint(101, 300))), 1)).encode()
        ),
    ),
    ("too_long", lambda draw: event_of(b'{"%s": 1}' % (b"n" * draw.randint(257, 2000)))),
    ("too_long", lambda draw: event_of(b'{"country": "%s"}' % (b"v" * draw.randint(257, 2000)))),
    (
        "too_long",
        lambda draw: event_of(b'{"a": "%s"}' % (b"x" * draw.randint(LONGEST, LONGEST + 10))),
    ),
    (
        "label",
        lambda draw: (
            b'{"features": {"amount": 1}, "label": %s}' % draw.choice([b"null", b"[1]", b"{}"])
        ),
    ),
    ("label", lambda _: b'{"features": {"amount": 1}}'),
    (
        "weight",
        lambda draw: (
            b'{"features": {}, "label": "fraud", "weight": %s}'
            % draw.choice([b"-1", b'"2"', b"null"])
        ),
    ),
)
RARE = {5, 17}
"""Places in KINDS of long messages: one for a hundred of the others."""


def make_malformed(draw):
    place = draw.randrange(len(KINDS))
    if place in RARE and draw.random() > 0.01:
        place = 0
    reason, make = KINDS[place]
    return reason, make(draw)


def mix():
    """Return the malformed messages counted by reason, the good ones, and all in the order they are
    fed.
    """
    draw = random.Random(1)
    reasons, good, fed = Counter(), [], []
    for serial in range(1, FIGURES.malformed // 10 + 1):
        bad = [make_malformed(draw) for _ in range(10)]
        reasons.update(reason for reason, _ in bad)
        good.append(event(serial))
        messages = [*(message for _, message in bad), good[-1]]
        draw.shuffle(messages)
        fed += messages
    return reasons, good, fed


def test_malformed_messages_change_only_their_counts(make_life, redis_url, record_figures):
    limits = {"max_bytes": LONGEST, "max_features": MOST}
    pace = {"interval_seconds": 1.0, "interval_events": 100_000}
    life = make_life(
        f"{redis_url}/events",
        redis_url,
        "malformed",
        limits=limits,
        max_poll_records=500,
        checkpoint=pace,
    )
    reasons, good, fed = mix()
    life.append(fed[: len(fed) // 4])
    process = life.start()
    wait_for(lambda: life.events() > len(good) // 8, "an eighth", 300)
    before = rss_mb(process.pid)
    life.append(fed[len(fed) // 4 :])
    wait_for(lambda: life.events() == len(good), "the last good event in a checkpoint", END_SECONDS)
    growth = rss_mb(process.pid) - before
    process.kill()
    final = life.finish()
    assert final["rejects_by_reason"] == dict(sorted(reasons.items()))
    assert read_tally(life.snapshot()) == {
        "events": len(good),
        "serials": len(good) * (len(good) + 1) // 2,
        "rejects": dict(reasons),
    }
    assert life.snapshot().state_digest == life.replay(good)["state_digest"]
    assert growth <= GROWTH_MB
    record_figures(
        "malformed messages among good ones",
        malformed=sum(reasons.values()),
        good=len(good),
        reasons=len(reasons),
        different=0,
        rss_growth_mb=round(growth, 1),
    )
