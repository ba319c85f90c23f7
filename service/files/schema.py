"""The features and the label that a file's scan implies, where there is no configuration to declare them.

Files learned from and tested on have one answer together: a column is numeric when it is so in each of them.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import msgspec

from service.errors import BadSettings
from service.files.datafile import DataFile
from service.files.delimited import label_json
from service.settings import Features, Label, canonical_label

SHOWN = 10
HINT = "give --positive V or --multiclass"


def aligned(files: Sequence[DataFile]) -> tuple[DataFile, ...]:
    """The files, a column that is words in one written as words in all."""
    words = set(chain.from_iterable(file.words for file in files))
    return tuple(
        replace(
            file,
            columns=tuple(name for name in file.columns if name not in words),
            words=tuple(name for name in file.header if name in words and name in (*file.columns, *file.words)),
        )
        for file in files
    )


def features_of(files: Sequence[DataFile], bits: int, *, only_tree: bool = False) -> Features:
    """Every column of every file by first appearance; `bits` only if something is left to hash.

    Nothing but the tree where nothing else is looked at.
    """
    if only_tree:
        return Features(bits=0, tree=files[0].tree)
    together = aligned(files)
    columns = tuple(dict.fromkeys(chain.from_iterable(file.columns for file in together)))
    text = tuple(dict.fromkeys(chain.from_iterable(file.text for file in together)))
    hashed = any(file.hashed for file in together)
    if hashed and bits == 0:
        raise BadSettings(f"{files[0].path}: has features that are hashed; give --bits above 0")
    return Features(columns=columns, text=text, bits=bits if hashed else 0, tree=files[0].tree)


def label_of(file: DataFile, *, positive: str | None, multiclass: bool, field: str | None = None) -> Label:
    """How labels become classes; `field` is the file's own label field unless said otherwise."""
    field = file.label if field is None else field
    if not file.labels:
        raise BadSettings(f"{file.path}: no row has a number, a word or true/false in the field {field}; see --label")
    if multiclass:
        if positive is not None:
            raise BadSettings("--multiclass has no positive class; leave out --positive")
        largest = Label.model_fields["max_classes"].default
        return Label(field=field, classes="grow", max_classes=max(largest, len(file.labels)))
    if positive is not None:
        if (spelling := spelled(file, positive)) is None:
            raise BadSettings(f"{file.path}: no row has the label {positive}; the labels are {_shown(file)}")
        return Label(field=field, positive=spelling)
    if "word" in file.signs:
        raise BadSettings(f"{file.path}: labels are not numbers or true/false: {_shown(file)}; {HINT}")
    if len(file.signs) == 1:
        raise BadSettings(f"{file.path}: labels of one sign only: {_shown(file)}; {HINT}")
    return Label(field=field)


def spelled(file: DataFile, label: str) -> str | None:
    """The label as the scan spelled it, so that `--positive +1` finds 1; None if no row has it."""
    for spelling in (label, canonical_label(msgspec.json.decode(label_json(label)))):
        if spelling in file.labels or file.more_labels:
            return spelling
    return None


def _shown(file: DataFile) -> str:
    more = ", …" if file.more_labels or len(file.labels) > SHOWN else ""
    return ", ".join(file.labels[:SHOWN]) + more
