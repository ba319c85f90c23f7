"""Slots of names: golden values, since they are part of the checkpoint format, and how evenly they
spread.
"""

import math
import random

from learners import hashing
from learners.hashing import DENSE_COLUMNS, SlotTable
from tests.looped import looped

NAMES = [
    "",
    "a",
    "age",
    "Age",
    "country=DE",
    "free",
    "naïve",
    "日本語",
    "🙂",
    "\ud800",
    "a b\n",
    "x" * 300,
]

GOLDEN = {
    10: [1, 257, 664, 324, 974, 970, 54, 959, 706, 644, 571, 884],
    18: [1, 65645, 169849, 82937, 249234, 248167, 13599, 245313, 180596, 164622, 145992, 226235],
    28: [
        *(1, 67220119, 173925163, 84927029, 255214870, 254122265),
        *(13925260, 251200072, 184930235, 168571935, 149495526, 231663836),
    ],
}
"""Slots of NAMES in a table without columns, by bits. A change here makes every stored model
worthless.
"""


@looped("bits", GOLDEN)
def test_slots_never_change(bits):
    table = SlotTable([], bits, bias=True)
    assert [table.hash_slot(name) for name in NAMES] == GOLDEN[bits]
    assert [table.hash_slot(name) for name in NAMES] == GOLDEN[bits], "the remembered slot differs"


def test_hashed_slots_follow_the_columns():
    table = SlotTable(["age", "height"], 10, bias=True)
    assert table.columns == {"age": 1, "height": 2}
    assert [table.hash_slot(name) for name in NAMES] == [slot + 2 for slot in GOLDEN[10]]


@looped(
    ("columns", "bits", "dim", "dense"),
    [
        (0, 0, 1, True),
        (3, 0, 4, True),
        (0, 10, 1025, False),
        (3, 10, 1028, False),
        (DENSE_COLUMNS, 0, DENSE_COLUMNS + 1, True),
        (DENSE_COLUMNS + 1, 0, DENSE_COLUMNS + 2, False),
    ],
)
def test_the_dimension_counts_bias_columns_and_hashed_slots(columns, bits, dim, dense):
    table = SlotTable([f"c{i}" for i in range(columns)], bits, bias=True)
    assert (table.dim, table.dense) == (dim, dense)


@looped("bits", [1, 10, 31])
def test_hashed_slots_lie_behind_the_columns_within_the_dimension(bits):
    table = SlotTable(["age"], bits, bias=True)
    slots = [table.hash_slot(f"f{i}") for i in range(2000)]
    assert min(slots) >= 2
    assert max(slots) < table.dim


def words(count):
    letters, rng = "abcdefghijklmnopqrstuvwxyz", random.Random(0)
    return ["".join(rng.choices(letters, k=rng.randint(4, 12))) for _ in range(count)]


@looped("bits", [14, 18])
@looped("names", [[f"f{i}" for i in range(10_000)], words(10_000)], ids=["numbered", "words"])
def test_collisions_are_no_more_frequent_than_by_chance(names, bits):
    """If each of n names falls into one of m slots at random, the number of used slots has a known
    mean and variance.
    """
    names = set(names)
    table = SlotTable([], bits, bias=True)
    taken = len({table.hash_slot(name) for name in names})
    n, m = len(names), 2**bits
    one_free, two_free = (1 - 1 / m) ** n, (1 - 2 / m) ** n
    variance = m * (m - 1) * two_free + m * one_free - (m * one_free) ** 2
    assert abs(taken - m * (1 - one_free)) <= 4 * math.sqrt(variance)


def test_endless_new_names_leave_memory_flat(monkeypatch):
    monkeypatch.setattr(hashing, "REMEMBERED", 100)
    table, fresh = SlotTable([], 18, bias=True), SlotTable([], 18, bias=True)
    for i in range(1000):
        slot = table.hash_slot(f"id={i}")
        assert len(table._remembered) <= 100
        fresh._remembered.clear()
        assert slot == fresh.hash_slot(f"id={i}")
