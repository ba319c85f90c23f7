"""Infer the features and the label from the scan of a file, if there is no configuration.

Training and test files share the result. A column is numeric only if it is numeric in each file.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import msgspec

from service.config.settings import Features, Label, canonical_label
from service.errors import SettingsError
from service.files.csv_rows import label_json
from service.files.datafile import DataFile

SHOWN = 10
HINT = "give --positive V or --multiclass"


def align_columns(files: Sequence[DataFile]) -> tuple[DataFile, ...]:
    """Make a column that has words in one file a column of words in all files."""
    words = set(chain.from_iterable(file.words for file in files))
    return tuple(
        replace(
            file,
            columns=tuple(name for name in file.columns if name not in words),
            words=tuple(
                name
                for name in file.header
                if name in words and name in (*file.columns, *file.words)
            ),
        )
        for file in files
    )


def features_of(files: Sequence[DataFile], bits: int, *, only_tree: bool = False) -> Features:
    """Infer features: all columns of all files, in order of first appearance.

    `bits` is 0 if no feature needs hashing. With `only_tree` the tree is the only feature.
    """
    if only_tree:
        return Features(bits=0, tree=files[0].tree)
    together = align_columns(files)
    columns = tuple(dict.fromkeys(chain.from_iterable(file.columns for file in together)))
    text = tuple(dict.fromkeys(chain.from_iterable(file.text for file in together)))
    hashed = any(file.hashed for file in together)
    if hashed and bits == 0:
        raise SettingsError(f"{files[0].path}: has features that are hashed; give --bits above 0")
    return Features(columns=columns, text=text, bits=bits if hashed else 0, tree=files[0].tree)


def label_of(
    file: DataFile, *, positive: str | None, multiclass: bool, field: str | None = None
) -> Label:
    """Infer how labels become classes. `field` is by default the label field of the file."""
    field = file.label if field is None else field
    if not file.labels:
        raise SettingsError(
            f"{file.path}: no row has a number, a word or true/false in the field {field}; "
            "see --label"
        )
    if multiclass:
        if positive is not None:
            raise SettingsError("--multiclass has no positive class; leave out --positive")
        largest = Label.model_fields["max_classes"].default
        return Label(field=field, classes="grow", max_classes=max(largest, len(file.labels)))
    if positive is not None:
        if (spelling := find_spelling(file, positive)) is None:
            raise SettingsError(
                f"{file.path}: no row has the label {positive}; the labels are {_shown(file)}"
            )
        return Label(field=field, positive=spelling)
    if "word" in file.signs:
        raise SettingsError(
            f"{file.path}: labels are not numbers or true/false: {_shown(file)}; {HINT}"
        )
    if len(file.signs) == 1:
        raise SettingsError(f"{file.path}: labels of one sign only: {_shown(file)}; {HINT}")
    return Label(field=field)


def find_spelling(file: DataFile, label: str) -> str | None:
    """Find a label as the scan spelled it, so `--positive +1` finds 1. None if no row has it."""
    for spelling in (label, canonical_label(msgspec.json.decode(label_json(label)))):
        if spelling in file.labels or file.more_labels:
            return spelling
    return None


def _shown(file: DataFile) -> str:
    more = ", …" if file.more_labels or len(file.labels) > SHOWN else ""
    return ", ".join(file.labels[:SHOWN]) + more
