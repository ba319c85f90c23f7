"""The registry of detectors. It maps a kind to a class, which is imported on first use."""

from typing import Any

from learners.drift.detector import Detector
from learners.registry import class_of, make_from

DETECTORS = {
    "adwin": "learners.drift.adwin:Adwin",
    "ddm": "learners.drift.ddm:Ddm",
    "eddm": "learners.drift.eddm:Eddm",
    "hddm-a": "learners.drift.hddm:HddmA",
    "hddm-w": "learners.drift.hddm:HddmW",
    "page-hinkley": "learners.drift.page_hinkley:PageHinkley",
    "kswin": "learners.drift.kswin:Kswin",
}


def detector_class(kind: str) -> type[Detector]:
    """Return the class of a kind of detector.

    The error for an unknown kind suggests the nearest one.
    """
    return class_of(kind, Detector, DETECTORS, "detector")


def make_detector(spec: Any) -> Detector:
    """Make a detector from a mapping with `kind`, JSON text, or the shorthand
    `kind:name=value,name=value`. A detector is returned as it is.
    """
    return make_from(spec, Detector, DETECTORS, "detector", "adwin:delta=0.002")
