"""The faults of a network, each in turn on a learner that goes on."""

import random
import time

from tests.chaos.scale import FIGURES
from tests.chaos.watcher import watched
from tests.waiting import wait_for

SLOW_SECONDS = 0.2


def suffer(life, proxy, request):
    """Every fault in turn, with a learner that goes on and answers; then the proof."""
    life.feed()
    process = life.start("run")
    with watched(process) as watcher:
        life.advances()
        for fault in faults(proxy, request):
            life.feed()
            fault()
            proxy.forward()
            life.feed()
            life.caught_up()
    process.kill()
    life.prove()
    return watcher.statuses[200]


def faults(proxy, request):
    """Each lasts until a random moment, or until what it waits for has happened."""
    draw = random.Random(9)

    def last():
        time.sleep(draw.uniform(0.5, 1.0) * FIGURES.hole_seconds)

    def cut():
        proxy.cut()
        last()

    def hole():
        proxy.hole()
        last()

    def slow():
        proxy.delay(SLOW_SECONDS)
        last()

    def throttled():
        proxy.throttle(64 * 1024)
        last()

    def reset():
        before = proxy.resets
        proxy.reset(after=100)
        wait_for(lambda: proxy.resets > before, "a reset")

    def lost():
        before = proxy.dropped
        proxy.drop_reply(request)
        wait_for(lambda: proxy.dropped > before, "a lost reply")

    return cut, hole, slow, throttled, *[reset] * 5, *[lost] * 5
