"""`make test` runs in lanes, which are processes side by side: which tests share a lane, and which
come first.

A group of tests runs in one lane, one test after the other. So each server of a file (a browser, a
service) starts once, and each kind's kernels are loaded once.
"""

from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

from learners.registry import LEARNERS

TESTS = Path(__file__).parent
COMPUTING = "tests/learners/"
WAITING = ("tests/chaos/", "tests/browser/", "tests/integration/", "tests/service/")
"""Folders whose tests mostly wait for servers; the longest first."""


class Lanes(LoadScopeScheduling):
    """Give whole groups to the next free lane. Not xdist's own `loadgroup`: it changes a private
    name of pytest 8, and with pytest 9 it silently splits every group.
    """

    def _split_scope(self, nodeid):
        return group(nodeid)


def group(nodeid):
    """Return the learner's kind if the test is about one, else the file."""
    path, _, test = nodeid.partition("::")
    parameter = test.partition("[")[2].removesuffix("]")
    return parameter if path.startswith(COMPUTING) and parameter in LEARNERS else path


def in_order(items):
    """Sort groups that compute between groups that wait: neither alone keeps the cores busy."""
    groups = {}
    for item in items:
        groups.setdefault(group(item.nodeid), []).append(item)
    waiting = sorted(filter(_place, groups), key=_place)
    computing = [name for name in groups if not _place(name)]
    return [item for name in _interleave(waiting, computing) for item in groups[name]]


def _place(name):
    """Return the place of a waiting group, from 1; 0 for a group that computes."""
    return next((k for k, folder in enumerate(WAITING, 1) if name.startswith(folder)), 0)


def _interleave(first, second):
    """Merge both lists in their order, spread evenly over the whole."""
    placed = [
        ((place + 0.5) / len(names), name)
        for names in (first, second)
        for place, name in enumerate(names)
    ]
    return [name for _, name in sorted(placed, key=lambda pair: pair[0])]
