"""Every detector by its kind, one line each, imported when it is used."""

from typing import Any

from learners.drift.detector import Detector
from learners.registry import class_of, made

DETECTORS = {
    "adwin": "learners.drift.adwin:Adwin",
    "ddm": "learners.drift.ddm:Ddm",
    "eddm": "learners.drift.eddm:Eddm",
    "hddm-a": "learners.drift.hddm_a:HddmA",
    "hddm-w": "learners.drift.hddm_w:HddmW",
    "page-hinkley": "learners.drift.page_hinkley:PageHinkley",
    "kswin": "learners.drift.kswin:Kswin",
}


def detector_class(kind: str) -> type[Detector]:
    """The class of a kind of detector; an unknown one is refused with the nearest."""
    return class_of(kind, Detector, DETECTORS, "detector")


def make_detector(spec: Any) -> Detector:
    """A detector from itself, a mapping with `kind`, JSON text, or the shorthand `kind:name=value,name=value`."""
    return made(spec, Detector, DETECTORS, "detector", "adwin:delta=0.002")
