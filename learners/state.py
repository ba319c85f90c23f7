"""States as named arrays: `flatten` makes the arrays of a checkpoint, `restore` makes a state from
them.

A part of a state may have spare room. Its method `in_use` returns how much of each array is in use,
by path; the rest is 0. `flatten` returns only the part in use, so the size of a checkpoint depends
on the rows that are stored, not on the maximum. Its method `fixed` names the arrays that no event
ever changes.
"""

import hashlib
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

State = Any
"""A NamedTuple of float64 and int64 arrays, possibly nested. It holds everything that changes."""


def flatten(state: State, prefix: str = "") -> dict[str, NDArray[Any]]:
    """Return the arrays of a state by path, such as `base/w/v`.

    The checkpoint, the debug view and the memory report use it.
    """
    taken = _lengths_in_use(state, prefix)
    return {
        path: _front(array, taken.get(path, ())) for path, array in _arrays(state, prefix).items()
    }


def restore(like: State, arrays: dict[str, NDArray[Any]]) -> State:
    """Rebuild a state with the shapes of `like` from flattened arrays.

    Raise ValueError if the arrays do not fit.
    """
    expected, roomy = _arrays(like, ""), _lengths_in_use(like, "")
    if expected.keys() != arrays.keys():
        odd = sorted(expected.keys() ^ arrays.keys())
        raise ValueError(f"arrays do not fit this learner: {', '.join(odd)}")
    for name, array in expected.items():
        free = len(roomy.get(name, ()))
        shape, given = array.shape, arrays[name].shape
        fits = shape[: len(shape) - free] == given[: len(given) - free] and len(shape) == len(given)
        if array.dtype != arrays[name].dtype or not fits or any(map(int.__lt__, shape, given)):
            room = " at most" if free else ""
            raise ValueError(
                f"{name} is {arrays[name].dtype}{given}, "
                f"this learner has {array.dtype}{shape}{room}"
            )
    for name in _fixed_paths(like, ""):
        if not np.array_equal(arrays[name], expected[name]):
            raise ValueError(f"{name} differs from the value that this learner has")
    return _fill(like, arrays, "")


def in_use_within(state: State) -> dict[str, tuple[int, ...]]:
    """Return the lengths in use of all parts, for a state that stacks other states."""
    return _lengths_in_use(state, "")


def state_digest(state: State) -> str:
    """SHA-256 over names, types, shapes and bytes of a state.

    The same events give the same digest on any machine.
    """
    return arrays_digest(flatten(state))


def arrays_digest(arrays: dict[str, NDArray[Any]]) -> str:
    """SHA-256 of a flattened state."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _arrays(state: State, prefix: str) -> dict[str, NDArray[Any]]:
    """Arrays by path, with their spare room."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, part in state._asdict().items():
        if isinstance(part, np.ndarray):
            arrays[prefix + name] = part
        else:
            arrays.update(_arrays(part, f"{prefix}{name}/"))
    return arrays


def _lengths_in_use(state: State, prefix: str) -> dict[str, tuple[int, ...]]:
    """Lengths in use along the last axes, for each array with spare room."""
    taken: dict[str, tuple[int, ...]] = {}
    for name, part in state._asdict().items():
        if not isinstance(part, np.ndarray):
            taken |= _lengths_in_use(part, f"{prefix}{name}/")
    if hasattr(state, "in_use"):  # an outer part knows more than an inner one
        taken |= {prefix + path: lengths for path, lengths in state.in_use().items()}
    return taken


def _front(array: NDArray[Any], lengths: tuple[int, ...]) -> NDArray[Any]:
    """The first `lengths` entries along the last axes."""
    index: Any = (..., *map(slice, lengths))
    return array[index] if lengths else array


def _fixed_paths(state: State, prefix: str) -> list[str]:
    """Paths of the arrays that never change."""
    fixed = [prefix + name for name in state.fixed()] if hasattr(state, "fixed") else []
    for name, part in state._asdict().items():
        if not isinstance(part, np.ndarray):
            fixed += _fixed_paths(part, f"{prefix}{name}/")
    return fixed


def _fill(like: State, arrays: dict[str, NDArray[Any]], prefix: str) -> State:
    parts = [
        _pad(part, arrays[prefix + name])
        if isinstance(part, np.ndarray)
        else _fill(part, arrays, f"{prefix}{name}/")
        for name, part in like._asdict().items()
    ]
    return cast("State", type(like)(*parts))


def _pad(like: NDArray[Any], array: NDArray[Any]) -> NDArray[Any]:
    """Copy an array into one with the spare room of `like`."""
    if array.shape == like.shape:
        return np.array(array)
    whole = np.zeros(like.shape, like.dtype)  # pages without data stay untouched
    whole[tuple(map(slice, array.shape))] = array
    return whole
