"""`python -m service.bench.curves DATA OUT.svg …`: draw the error of every learner, by family."""

import argparse
from pathlib import Path

from learners.catalog import family
from learners.registry import LEARNERS, kind_class, make
from learners.warmup import warm
from service.config.settings import Limits
from service.consumer.wiring import Learning, replay
from service.features.decoder import Decoder
from service.files import DataFile, features_of, label_of, scan
from service.model.model import Model
from service.plotting import AlarmRecorder, Curve, Panel, check_picture, curves_of, draw
from service.sources.file import FileSource


def curve(file: DataFile, kind: str, positive: str | None, shuffle: int | None) -> Curve:
    """Return the curve of one predict-then-update pass."""
    features, label = features_of([file], 18), label_of(file, positive=positive, multiclass=False)
    decoder = Decoder(features, label, Limits())
    scaled = not kind_class(kind).model_construct().capabilities.why_not_scalable
    spec = {"kind": "scaled", "base": {"kind": kind}} if scaled else {"kind": kind}
    model = Model(make(spec), features, label, decoder)
    warm(model.learner)
    replay(Learning(decoder, model), FileSource(file, shuffle=shuffle))
    return curves_of(model, kind, AlarmRecorder())[0]


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
