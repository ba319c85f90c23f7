"""States as named arrays: what a checkpoint holds, and the way back.

A part of a state may have spare room; it says in `in_use` how much of each array is taken, by path, and the rest is 0.
Then only that is told, so that a checkpoint costs what is stored and not what could be. And it may say in `fixed` which
of its arrays no event ever changes.
"""

import hashlib
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

State = Any
"""A NamedTuple of float64 and int64 arrays, possibly nested: everything that changes, by name."""


def flatten(state: State, prefix: str = "") -> dict[str, NDArray[Any]]:
    """Arrays of a state by path, e.g. `base/w/v`: the checkpoint, the debug view and the memory report."""
    taken = _taken(state, prefix)
    return {path: _front(array, taken.get(path, ())) for path, array in _arrays(state, prefix).items()}


def _front(array: NDArray[Any], lengths: tuple[int, ...]) -> NDArray[Any]:
    """So much of the last axes."""
    index: Any = (..., *map(slice, lengths))
    return array[index] if lengths else array


def _arrays(state: State, prefix: str) -> dict[str, NDArray[Any]]:
    """The same with all their room."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, part in state._asdict().items():
        if isinstance(part, np.ndarray):
            arrays[prefix + name] = part
        else:
            arrays.update(_arrays(part, f"{prefix}{name}/"))
    return arrays


def _taken(state: State, prefix: str) -> dict[str, tuple[int, ...]]:
    """How much of the last axes of each array with spare room is taken."""
    taken: dict[str, tuple[int, ...]] = {}
    for name, part in state._asdict().items():
        if not isinstance(part, np.ndarray):
            taken |= _taken(part, f"{prefix}{name}/")
    if hasattr(state, "in_use"):  # an outer part may know more of an inner one
        taken |= {prefix + path: lengths for path, lengths in state.in_use().items()}
    return taken


def in_use_within(state: State) -> dict[str, tuple[int, ...]]:
    """What the parts of a state say themselves, for whoever holds several of them in one."""
    return _taken(state, "")


def restore(like: State, arrays: dict[str, NDArray[Any]]) -> State:
    """The inverse of `flatten`: a state built like a fresh one; arrays that do not fit it are refused."""
    expected, roomy = _arrays(like, ""), _taken(like, "")
    if expected.keys() != arrays.keys():
        odd = sorted(expected.keys() ^ arrays.keys())
        raise ValueError(f"arrays do not fit this learner: {', '.join(odd)}")
    for name, array in expected.items():
        free = len(roomy.get(name, ()))
        shape, given = array.shape, arrays[name].shape
        fits = shape[: len(shape) - free] == given[: len(given) - free] and len(shape) == len(given)
        if array.dtype != arrays[name].dtype or not fits or any(map(int.__lt__, shape, given)):
            room = " at most" if free else ""
            raise ValueError(f"{name} is {arrays[name].dtype}{given}, this learner has {array.dtype}{shape}{room}")
    for name in _fixed(like, ""):
        if not np.array_equal(arrays[name], expected[name]):
            raise ValueError(f"{name} is another than this learner has")
    return _filled(like, arrays, "")


def _fixed(state: State, prefix: str) -> list[str]:
    """Paths of the arrays that never change."""
    fixed = [prefix + name for name in state.fixed()] if hasattr(state, "fixed") else []
    for name, part in state._asdict().items():
        if not isinstance(part, np.ndarray):
            fixed += _fixed(part, f"{prefix}{name}/")
    return fixed


def _filled(like: State, arrays: dict[str, NDArray[Any]], prefix: str) -> State:
    parts = [
        _padded(part, arrays[prefix + name])
        if isinstance(part, np.ndarray)
        else _filled(part, arrays, f"{prefix}{name}/")
        for name, part in like._asdict().items()
    ]
    return cast("State", type(like)(*parts))


def _padded(like: NDArray[Any], array: NDArray[Any]) -> NDArray[Any]:
    """A copy, with room for as much as there was before."""
    if array.shape == like.shape:
        return np.array(array)
    whole = np.zeros(like.shape, like.dtype)  # untouched memory where nothing is put
    whole[tuple(map(slice, array.shape))] = array
    return whole


def state_digest(state: State) -> str:
    """SHA-256 over names, types, shapes and bytes of a state: the same events give the same digest anywhere."""
    return arrays_digest(flatten(state))


def arrays_digest(arrays: dict[str, NDArray[Any]]) -> str:
    """The same of a state that has been flattened."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
