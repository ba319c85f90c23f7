"""Served probabilities over a real data set: each is requested before its event is learned."""

import numpy as np
import pytest

from learners.evaluation.calibration import BINS, calibration_error
from learners.registry import make
from service.config.settings import Limits
from service.features.decoder import Decoder, batch
from service.files import features_of, label_of, scan
from service.model.model import Model
from service.sources.file import FileSource


@pytest.mark.data
@pytest.mark.parametrize("kind", ["pa1", "sgd-log", "mbw"])
def test_served_probabilities_are_calibrated_within_five_hundredths(data, kind):
    file = scan(data / "a9a_train.svm.gz")
    features, label = features_of([file], 18), label_of(file, positive=None, multiclass=False)
    decoder, source = Decoder(features, label, Limits()), FileSource(file)
    model = Model(make(kind), features, label, decoder)
    given, came = [], []
    while records := source.poll(0.0, 1000):
        for event in [decoder.event(record.value) for record in records]:
            _, (answer,) = model.predict(batch([event]))
            model.learn([event])
            given.append(answer.probability)
            came.append(model.labels.number(event.label) > 0.0)
    source.close()
    assert error(given, came) == pytest.approx(calibration_error(model.calibration))
    half = len(given) // 2
    assert error(given[half:], came[half:]) <= 0.05


def error(given, came):
    p, hit = np.array(given), np.array(came)
    bins = np.minimum((p * BINS).astype(int), BINS - 1)
    return sum(abs(p[bins == b].sum() - hit[bins == b].sum()) for b in range(BINS)) / p.size
