"""A looped test runs every case, and names those that failed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.looped import check_each, looped, looped_by

SEEN = []


@looped("number", range(3))
@looped(("letter", "upper"), [("a", "A"), ("b", "B")])
def test_loops_nest_beside_a_fixture(tmp_path, number, letter, upper):
    assert tmp_path.is_dir()
    assert letter.upper() == upper
    SEEN.append((number, letter))
    assert len(SEEN) == len(set(SEEN))


def test_each_combination_was_seen():
    SEEN.clear()
    test_loops_nest_beside_a_fixture(tmp_path=type("Folder", (), {"is_dir": lambda _: True})())
    assert len(SEEN) == 6


def test_all_cases_run_and_the_failed_ones_are_named():
    seen = []

    @looped("number", [1, 2, 3, 4], ids=["one", "two", "three", "four"])
    def check(number):
        seen.append(number)
        assert number % 2, f"{number} is even"

    with pytest.raises(AssertionError, match="2 is even") as failure:
        check()
    assert seen == [1, 2, 3, 4]
    assert failure.value.__notes__ == ["failed in 2 of 4 cases: two; four"]


def test_a_loop_over_nothing_is_refused():
    with pytest.raises(AssertionError, match="no case of number"):
        looped("number", [])
    with pytest.raises(AssertionError, match="no case was checked"):
        check_each([])


def test_an_unknown_parameter_is_refused():
    with pytest.raises(AssertionError, match="has no parameter word"):
        looped("word", ["a"])(test_a_loop_over_nothing_is_refused)


by_length = looped_by("word", ["a", "b", "cc"], len, str, parameter="length")
WORDS = []


@by_length
@given(number=st.integers(0, 9))
@examples(5)
def test_one_item_runs_its_whole_group_even_with_hypothesis(word, number):
    WORDS.append(word)
    assert number < 10


def test_a_looped_property_keeps_the_hypothesis_mark():
    property_ = test_one_item_runs_its_whole_group_even_with_hypothesis
    assert "hypothesis" in {mark.name for mark in property_.pytestmark}
    assert not hasattr(looped("number", [1])(lambda number: number), "pytestmark")


def test_a_group_loops_over_all_its_things():
    WORDS.clear()
    test_one_item_runs_its_whole_group_even_with_hypothesis(length=1)
    assert set(WORDS) == {"a", "b"}
