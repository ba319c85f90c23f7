"""Events that carry a serial number in one of their columns, so that the state itself shows which
events were counted.

Scaled learners keep the mean of every column, and mean × events is the sum of the serials: an event
that was lost, or learned twice, changes the count or that sum, whatever the weights are.
"""

import random

COLUMNS = ("serial", "amount", "hour")
COUNTRIES = ("de", "fr", "it", "pl", "us", "br", "in", "jp")
MODEL = {
    "learner": {"kind": "scaled", "base": {"kind": "averaged", "base": {"kind": "pa1", "C": 0.1}}},
    "features": {"columns": list(COLUMNS), "bits": 8},
    "label": {"positive": "fraud"},
}
SERIAL_SLOT = 1
"""Slot of the column `serial`; slot 0 is the bias."""
QUESTION = b'{"features": {"serial": 1, "amount": 420.5, "hour": 3, "country": "br"}}'

BAD = (
    ("malformed", b"{"),
    ("range", b'{"features": {"amount": 1e300}, "label": "fraud"}'),
    ("type", b'{"features": {"amount": "x"}, "label": "fraud"}'),
    ("label", b'{"features": {"amount": 1}}'),
)
"""Events that cannot be learned: (reason, bytes)."""
BAD_EVERY = 50


def event(serial):
    """Return event number `serial`; it is always the same."""
    draw = random.Random(serial)
    amount, hour, country = draw.gauss(250.0, 120.0), draw.random() * 24.0, draw.choice(COUNTRIES)
    label = (
        "fraud"
        if amount + 8.0 * hour + 90.0 * (country in {"br", "us"}) + draw.gauss(0.0, 30.0) > 400
        else "fine"
    )
    return (
        f'{{"features": {{"serial": {serial}, "amount": {amount:.3f}, "hour": {hour:.3f},'
        f' "country": "{country}"}}, "label": "{label}"}}'
    ).encode()


def make_messages(first, count):
    """Return messages first, first + 1, …: events, and in every BAD_EVERY-th place a message that
    cannot be learned.
    """
    return [
        (
            BAD[place // BAD_EVERY % len(BAD)][1]
            if place % BAD_EVERY == BAD_EVERY - 1
            else event(place)
        )
        for place in range(first, first + count)
    ]


def tally(messages):
    """Return how many messages are events, the sum of their serials, and how many are rejects, by
    reason.
    """
    reasons = {text: reason for reason, text in BAD}
    serials, rejects = [], {}
    for message in messages:
        reason = reasons.get(message)
        if reason is None:
            serials.append(int(message[len(b'{"features": {"serial": ') :].partition(b",")[0]))
        else:
            rejects[reason] = rejects.get(reason, 0) + 1
    return {"events": len(serials), "serials": sum(serials), "rejects": rejects}


def read_tally(snapshot):
    """Return the same tally from the state of a checkpoint."""
    total = float(snapshot.arrays["state/mean"][SERIAL_SLOT]) * snapshot.events
    assert abs(total - round(total)) < 0.01, (
        "the mean of the serials is too inexact to recover their sum"
    )
    return {"events": snapshot.events, "serials": round(total), "rejects": dict(snapshot.rejects)}
