"""Which generations stay: few, none wanted again, and some from long ago."""

from hypothesis import example, given
from hypothesis import strategies as st

from service.storage.manifests import is_retained
from tests.examples import examples

some = examples(200)
keeps = st.integers(1, 20)
levels = st.integers(0, 6)


@some
@given(st.integers(1, 10**7), st.integers(0, 10**7), st.integers(1, 10**6), keeps, levels)
def test_once_dropped_never_wanted_again(generation, older, later, keep, level):
    newest = generation + older
    if not is_retained(generation, newest, keep, level):
        assert not is_retained(generation, newest + later, keep, level)


@some
@given(st.integers(1, 3000), keeps, levels)
@example(2 * 8**3, 8, 3)
def test_few_stay_and_the_newest_do(newest, keep, level):
    kept = [n for n in range(1, newest + 1) if is_retained(n, newest, keep, level)]
    assert set(range(max(1, newest - keep + 1), newest + 1)) <= set(kept)
    assert len(kept) <= keep + 2 * level


@some
@given(st.integers(1, 10**7), st.integers(1, 6))
def test_of_every_level_there_are_two_as_soon_as_there_can_be(newest, level):
    """So the oldest of a level is between one and two of its steps away."""
    step = 8**level
    multiples = [n for n in (newest // step * step, newest // step * step - step) if n > 0]
    assert all(is_retained(n, newest, 1, level) for n in multiples)
    if newest >= 2 * step:
        assert step <= newest - multiples[-1] < 2 * step


def test_kept_in_a_long_run():
    """Told step by step, with what was dropped gone for good."""
    kept: list[int] = []
    for newest in range(1, 701):
        kept = [n for n in (*kept, newest) if is_retained(n, newest, 4, 3)]
        assert kept == [n for n in range(1, newest + 1) if is_retained(n, newest, 4, 3)]
    assert kept == [512, 576, 640, 688, 696, 697, 698, 699, 700]
