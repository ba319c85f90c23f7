"""Which generations are retained: few, none that was dropped before, and some old ones."""

from hypothesis import example, given
from hypothesis import strategies as st

from service.storage.manifests import is_retained
from tests.examples import examples

some = examples(200)
keeps = st.integers(1, 20)
levels = st.integers(0, 6)


@some
@given(st.integers(1, 10**7), st.integers(0, 10**7), st.integers(1, 10**6), keeps, levels)
def test_a_dropped_generation_is_never_retained_later(generation, older, later, keep, level):
    newest = generation + older
    if not is_retained(generation, newest, keep, level):
        assert not is_retained(generation, newest + later, keep, level)


@some
@given(st.integers(1, 3000), keeps, levels)
@example(2 * 8**3, 8, 3)
def test_few_generations_are_retained_with_all_the_newest(newest, keep, level):
    kept = [n for n in range(1, newest + 1) if is_retained(n, newest, keep, level)]
    assert set(range(max(1, newest - keep + 1), newest + 1)) <= set(kept)
    assert len(kept) <= keep + 2 * level


@some
@given(st.integers(1, 10**7), st.integers(1, 6))
def test_each_level_retains_two_generations(newest, level):
    """So the oldest generation of a level is between one and two of its steps old."""
    step = 8**level
    multiples = [n for n in (newest // step * step, newest // step * step - step) if n > 0]
    assert all(is_retained(n, newest, 1, level) for n in multiples)
    if newest >= 2 * step:
        assert step <= newest - multiples[-1] < 2 * step


def test_retention_step_by_step_equals_retention_at_once():
    """Dropped generations are gone for good."""
    kept: list[int] = []
    for newest in range(1, 701):
        kept = [n for n in (*kept, newest) if is_retained(n, newest, 4, 3)]
        assert kept == [n for n in range(1, newest + 1) if is_retained(n, newest, 4, 3)]
    assert kept == [512, 576, 640, 688, 696, 697, 698, 699, 700]
