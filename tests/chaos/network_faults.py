"""The faults of a network, each in turn on a learner that goes on."""

import time

from tests.chaos.scale import FIGURES
from tests.chaos.watcher import watched
from tests.integration.processes import wait_for

DOWN_SECONDS = 1.0
SLOW_SECONDS = 0.2
BACK_SECONDS = 60.0


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
            life.caught_up(BACK_SECONDS)
    process.kill()
    life.prove()
    return watcher.statuses[200]


def faults(proxy, request):
    def cut():
        proxy.cut()
        time.sleep(DOWN_SECONDS)

    def hole():
        proxy.hole()
        time.sleep(FIGURES.hole_seconds)

    def slow():
        proxy.delay(SLOW_SECONDS)
        time.sleep(FIGURES.hole_seconds)

    def throttled():
        proxy.throttle(64 * 1024)
        time.sleep(FIGURES.hole_seconds)

    def reset():
        before = proxy.resets
        proxy.reset(after=100)
        wait_for(lambda: proxy.resets > before, 30, "a reset")

    def lost():
        before = proxy.dropped
        proxy.drop_reply(request)
        wait_for(lambda: proxy.dropped > before, 30, "a lost reply")

    return cut, hole, slow, throttled, *[reset] * 5, *[lost] * 5
