"""`python -m service.bench.curves DATA OUT.svg …`: cumulative error of every learner along a real stream, by family."""

import argparse
from pathlib import Path

from learners.description import family
from learners.registry import LEARNERS, kind_class, make
from learners.warmup import warm
from service.events import Decoder
from service.files import DataFile, features_of, label_of, scan
from service.model import Model
from service.offline import one_pass
from service.pictures import Curve, Panel, check_picture, draw
from service.settings import Limits
from service.sources.file import FileSource
from service.trail import Trail, curves_of


def curve(file: DataFile, kind: str, positive: str | None, shuffle: int | None) -> Curve:
    """Of one honest pass."""
    features, label = features_of([file], 18), label_of(file, positive=positive, multiclass=False)
    decoder = Decoder(features, label, Limits())
    scaled = not kind_class(kind).model_construct().scalable()
    spec = {"kind": "scaled", "base": {"kind": kind}} if scaled else {"kind": kind}
    model = Model(make(spec), features, label, decoder)
    warm(model.learner)
    one_pass(model, decoder, FileSource(file, shuffle=shuffle), lambda: None)
    return curves_of(model, kind, Trail())[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--positive")
    parser.add_argument("--shuffle", type=int)
    arguments = parser.parse_args()
    check_picture(arguments.out)
    file = scan(arguments.data)
    families: dict[str, list[Curve]] = {}
    for kind in LEARNERS:
        families.setdefault(family(kind).replace("_", " "), []).append(
            curve(file, kind, arguments.positive, arguments.shuffle)
        )
    draw(arguments.out, [Panel(name, curves) for name, curves in families.items()], recent=False)


if __name__ == "__main__":
    main()
