"""Streams of errors, and detectors sensitive enough to alarm on short ones."""

import numpy as np

from learners.drift.registry import DETECTORS, make_detector

TOUCHY = [
    "adwin:delta=0.5,clock=1,M=2,min_window=1,grace=1",
    "adwin:delta=0.3,clock=3,M=1",
    "ddm:warmup=3,warning=1.2,alarm=1.5",
    "eddm:warmup=3,alpha=0.95,beta=0.93",
    "hddm-a:alpha_d=0.2,alpha_w=0.4,two_sided=true",
    "hddm-w:alpha_d=0.2,alpha_w=0.4,lam=0.2,two_sided=true",
    "page-hinkley:lam=2,alpha=0.99,warmup=5",
    "page-hinkley:lam=1.5,delta=0.01,mode=up",
    "page-hinkley:lam=1.5,delta=0.01,mode=down",
    "kswin:alpha=0.2,n=14,r=5",
]
EVERY = [make_detector(spec) for spec in [*DETECTORS, *TOUCHY]]


def name(detector):
    changed = detector.model_dump(exclude_defaults=True, exclude={"kind"})
    return detector.kind + "".join(f" {field}={value}" for field, value in changed.items())


def errors(seed, *parts):
    """Return errors in parts of (events, rate at the beginning, rate at the end)."""
    rates = np.concatenate([np.linspace(first, last, events) for events, first, last in parts])
    return (np.random.default_rng(seed).random(rates.size) < rates).astype(np.float64)


TWENTY = {
    "stationary, low": errors(0, (10_000, 0.05, 0.05)),
    "stationary": errors(1, (20_000, 0.2, 0.2)),
    "stationary, even": errors(2, (10_000, 0.5, 0.5)),
    "abrupt": errors(3, (5_000, 0.1, 0.1), (5_000, 0.3, 0.3)),
    "abrupt, large": errors(4, (2_000, 0.05, 0.05), (2_000, 0.8, 0.8)),
    "abrupt, small": errors(5, (8_000, 0.2, 0.2), (8_000, 0.25, 0.25)),
    "abrupt, early": errors(6, (100, 0.1, 0.1), (3_000, 0.4, 0.4)),
    "better": errors(7, (5_000, 0.4, 0.4), (5_000, 0.1, 0.1)),
    "there and back": errors(8, (3_000, 0.1, 0.1), (3_000, 0.3, 0.3), (3_000, 0.1, 0.1)),
    "gradual": errors(9, (5_000, 0.1, 0.1), (2_000, 0.1, 0.3), (3_000, 0.3, 0.3)),
    "gradual, slow": errors(10, (10_000, 0.05, 0.5)),
    "gradual, better": errors(11, (10_000, 0.5, 0.05)),
    "steps": errors(12, *((1_500, rate, rate) for rate in (0.05, 0.15, 0.25, 0.4, 0.6))),
    "learning": errors(13, (500, 0.5, 0.2), (5_000, 0.2, 0.1), (2_000, 0.3, 0.1)),
    "many changes": errors(14, *((400, rate, rate) for rate in (0.1, 0.5) * 10)),
    "very short": errors(15, (20, 0.3, 0.3)),
    "no errors": np.zeros(3_000),
    "errors only": np.ones(3_000),
    "by turns": np.tile([0.0, 1.0], 2_000),
    "none, then only": np.repeat([0.0, 1.0, 0.0], 1_000),
}
