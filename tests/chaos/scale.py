"""How often each fault is done: a few times in every test run, many times in `make chaos`."""

import os
from typing import NamedTuple

CHAOS = os.environ.get("ONEPASS_CHAOS") == "1"


class Figures(NamedTuple):
    failpoint_rounds: int
    """Kills at each failpoint, on each of two logs."""
    kills: int
    """Kills at random times, over two logs of one partition."""
    lineage_kills: int
    """Kills at random times, over eight partitions."""
    zombies: int
    redis_rounds: int
    """Rounds of each way in which Redis fails."""
    broker_rounds: int
    malformed: int
    dropped_replies: int
    terms: int
    hole_seconds: float
    """Seconds; the longest time for which a link is cut, silent, slow or narrow."""
    slow_headers: int
    slow_bodies: int
    """Connections that send their body one byte at a time, all at once."""
    attack_rounds: int
    """Rounds of each scenario of the attack."""


FEW = Figures(
    failpoint_rounds=1,
    kills=20,
    lineage_kills=4,
    zombies=5,
    redis_rounds=2,
    broker_rounds=2,
    malformed=100_000,
    dropped_replies=20,
    terms=5,
    hole_seconds=2.0,
    slow_headers=100,
    slow_bodies=40,
    attack_rounds=2,
)
MANY = Figures(
    failpoint_rounds=5,
    kills=300,
    lineage_kills=100,
    zombies=50,
    redis_rounds=20,
    broker_rounds=20,
    malformed=1_000_000,
    dropped_replies=100,
    terms=100,
    hole_seconds=30.0,
    slow_headers=500,
    slow_bodies=200,
    attack_rounds=20,
)
FIGURES = MANY if CHAOS else FEW

SOAK_EVENTS = 20_000_000
IDLE_SECONDS = 60.0
