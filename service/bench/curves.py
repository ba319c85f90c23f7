"""`python -m service.bench.curves DATA OUT.svg …`: cumulative error of every learner along a real stream, by family."""

import argparse
from pathlib import Path

from learners.registry import LEARNERS, kind_class, make
from learners.warmup import warm
from service.events import Decoder
from service.files import DataFile, features_of, label_of, scan
from service.model import Model
from service.offline import one_pass
from service.settings import Limits
from service.sources.file import FileSource

WIDTH, HEIGHT, MARGIN = 460, 240, 44
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22")
POINTS = 120


def family(kind: str) -> str:
    """The file a learner lives in: one per paper family."""
    return kind_class(kind).__module__.rsplit(".", 1)[-1].replace("_", " ")


def curve(file: DataFile, kind: str, positive: str | None, shuffle: int | None) -> list[tuple[int, float]]:
    """Events and cumulative error, at some hundred points of one honest pass."""
    features, label = features_of([file], 18), label_of(file, positive=positive, multiclass=False)
    decoder = Decoder(features, label, Limits())
    scaled = not kind_class(kind).model_construct().scalable()
    spec = {"kind": "scaled", "base": {"kind": kind}} if scaled else {"kind": kind}
    model = Model(make(spec), features, label, decoder)
    warm(model.learner)
    source = FileSource(file, shuffle=shuffle)
    points: list[tuple[int, float]] = []

    def note() -> None:
        events = int(model.progress.events[0])
        if events and (not points or events - points[-1][0] >= file.rows / POINTS):
            points.append((events, model.progress.error_rate))

    one_pass(model, decoder, source, note, records=max(1, file.rows // (2 * POINTS)))
    return points


def panel(title: str, curves: dict[str, list[tuple[int, float]]], left: int, top: int) -> list[str]:
    """One family's curves as SVG, with its axes and legend."""
    longest = max(points[-1][0] for points in curves.values())
    highest = max(0.05, *(error for points in curves.values() for _, error in points[len(points) // 20 :]))
    across = (WIDTH - 2 * MARGIN - 90) / longest
    up = (HEIGHT - 2 * MARGIN) / highest
    base = top + HEIGHT - MARGIN
    parts = [
        f'<text x="{left + MARGIN}" y="{top + 26}" class="t">{title}</text>',
        f'<path d="M{left + MARGIN} {top + MARGIN}V{base}h{WIDTH - 2 * MARGIN - 90}" class="a"/>',
        f'<text x="{left + MARGIN - 6}" y="{top + MARGIN + 4}" class="n" text-anchor="end">{highest:.2f}</text>',
        f'<text x="{left + MARGIN - 6}" y="{base}" class="n" text-anchor="end">0</text>',
        f'<text x="{left + WIDTH - MARGIN - 90}" y="{base + 16}" class="n" text-anchor="end">{longest:,} events</text>',
    ]
    for number, (kind, points) in enumerate(sorted(curves.items(), key=lambda item: item[1][-1][1])):
        colour = COLOURS[number % len(COLOURS)]
        line = " ".join(f"{left + MARGIN + n * across:.1f},{base - min(e, highest) * up:.1f}" for n, e in points)
        label = f"{kind} {points[-1][1]:.3f}"
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.4"/>')
        y = top + MARGIN + 15 * number
        parts.append(f'<text x="{left + WIDTH - MARGIN - 84}" y="{y}" class="l" fill="{colour}">{label}</text>')
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--positive")
    parser.add_argument("--shuffle", type=int)
    arguments = parser.parse_args()
    file = scan(arguments.data)
    families: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for kind in LEARNERS:
        families.setdefault(family(kind), {})[kind] = curve(file, kind, arguments.positive, arguments.shuffle)
    rows = -(-len(families) // 2)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH} {rows * HEIGHT}" font-family="sans-serif">',
        "<style>.t{font-size:14px;font-weight:600;fill:#223}.n,.l{font-size:11px}.n{fill:#556}.a{stroke:#889;fill:none}</style>",
        f'<rect width="{2 * WIDTH}" height="{rows * HEIGHT}" fill="#fff"/>',
    ]
    for place, (name, curves) in enumerate(families.items()):
        parts += panel(name, curves, place % 2 * WIDTH, place // 2 * HEIGHT)
    arguments.out.write_text("\n".join([*parts, "</svg>", ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
