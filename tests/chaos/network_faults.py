"""The faults of a network, one after the other, under a learner that must survive them."""

import random
import time

from tests.chaos.scale import FIGURES
from tests.chaos.watcher import watch_predictions
from tests.waiting import wait_for

SLOW_SECONDS = 0.2


def suffer(life, proxy, request):
    """Apply every fault in turn while the learner learns and answers; then prove its state."""
    life.feed()
    process = life.start("run")
    with watch_predictions(process) as watcher:
        life.advance()
        for fault in faults(proxy, request):
            life.feed()
            fault()
            proxy.forward()
            life.feed()
            life.catch_up()
    process.kill()
    life.prove()
    return watcher.statuses[200]


def faults(proxy, request):
    """Return the faults. Each lasts until a random moment, or until the awaited effect has
    happened.
    """
    draw = random.Random(9)

    def pause():
        time.sleep(draw.uniform(0.5, 1.0) * FIGURES.hole_seconds)

    def cut():
        proxy.cut()
        pause()

    def hole():
        proxy.hole()
        pause()

    def slow():
        proxy.delay(SLOW_SECONDS)
        pause()

    def throttle():
        proxy.throttle(64 * 1024)
        pause()

    def reset():
        before = proxy.resets
        proxy.reset(after=100)
        wait_for(lambda: proxy.resets > before, "a reset")

    def lose_reply():
        before = proxy.dropped
        proxy.drop_reply(request)
        wait_for(lambda: proxy.dropped > before, "a lost reply")

    return cut, hole, slow, throttle, *[reset] * 5, *[lose_reply] * 5
