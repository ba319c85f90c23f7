"""The three answers of the first screen, each as a function of /status."""

import time

import pytest

from tests.browser.told import alarm, status
from tests.looped import looped

GOOD = [
    (
        status(),
        "good",
        "Good",
        "9 % errors in the last 1,000 events, a third of the 27 % of always saying “fine”.",
    ),
    (
        status(events=40, recent=0.0),
        "good",
        "Good",
        "0 % errors in the last 40 events, against the 27 % of",
    ),
    (status(recent=0.2), "fair", "Fair", "three quarters of the 27 %"),
    (status(recent=0.27), "fair", "No better than a guess", "about the 27 %"),
    (
        status(recent=0.4),
        "bad",
        "Worse than a guess",
        "40 % errors in the last 1,000 events, more than the 27 % of always",
    ),
    (
        status(no_change=0.02),
        "bad",
        "Worse than a guess",
        "more than the 2 % of repeating the last label",
    ),
    (
        status(majority=0.0, no_change=0.0, recent=0.0),
        "good",
        "Good",
        "all their labels were the same",
    ),
    (status(majority=0.0, no_change=0.0), "bad", "Worse than a guess", "had none"),
    (status(events=0, recent=None), "none", "Nothing learned yet", ""),
    (status(events=0, recent=0.0), "none", "Nothing learned yet", ""),
    (status(majority=None, no_change=None), "none", "9 %", "9 % errors"),
    (status() | {"quality": None}, "none", "9 %", "9 % errors"),
]


@looped(("told", "mood", "word", "sentence"), GOOD)
def test_the_model_is_compared_with_the_better_baseline(shell, told, mood, word, sentence):
    said = [words.replace("\u00a0", " ") for words in shell.evaluate("isGood", told)]
    assert said[:2] == [mood, word]
    assert sentence in said[2]


CHANGED = [
    (status(), "good", "Steady", "No alarm in 20,000 events."),
    (
        status(alarms=[alarm(19_000)]),
        "worse",
        "Changed",
        (
            "1,000 events ago, at event 19,000: error rose by 0.21 (adwin). Shown for 5,000 events"
            " or a minute."
        ),
    ),
    (
        status(alarms=[alarm(10_000)]),
        "good",
        "Steady",
        "10,000 events ago, at event 10,000: error rose",
    ),
    (status(alarms=[alarm(19_000, "better")]), "good", "Steady", "No alarm"),
    (
        status(alarms=[alarm(19_000, "moved", "hour", "inputs")]),
        "moved",
        "Changed",
        "hour moved by 0.21 (inputs).",
    ),
    (
        status(alarms=[alarm(19_000), alarm(19_100, "moved", "hour", "inputs")]),
        "worse",
        "Changed",
        "error rose",
    ),
    (status(events=0), "none", "Nothing learned yet", ""),
    (status(detectors=[]), "none", "Not watched", ""),
    (status() | {"drift": None}, "none", "Not known", ""),
]


@looped(("told", "mood", "word", "sentence"), CHANGED)
def test_a_recent_alarm_is_shown_as_a_change(shell, told, mood, word, sentence):
    said = shell.evaluate("didChange", told)
    assert said[:2] == [mood, word]
    assert sentence in said[2]


def test_on_a_fast_stream_an_alarm_is_shown_for_a_minute(shell):
    assert (
        shell.evaluate("didChange", status(events=10**7, alarms=[alarm(10, at=time.time() - 5)]))[1]
        == "Changed"
    )
    assert (
        shell.evaluate("didChange", status(events=10**7, alarms=[alarm(10, at=time.time() - 90)]))[
            1
        ]
        == "Steady"
    )


def make_alarms(*events_and_sizes):
    return [
        alarm(event, detector=detector, size=size) for event, detector, size in events_and_sizes
    ]


TOGETHER = [
    (
        [(19_000, "adwin", 0.58), (19_161, "ddm", 0.01)],
        "1,000 events ago, at event 19,000: error rose by 0.58 (adwin, ddm).",
    ),
    (
        [(19_000, "ddm", 0.01), (20_000, "adwin", 0.58)],
        "1,000 events ago, at event 19,000: error rose by 0.58 (ddm, adwin).",
    ),
    (
        [(19_000, "adwin", 0.1), (19_300, "adwin", 0.3)],
        "at event 19,000: error rose by 0.30 (adwin).",
    ),
    (
        [(18_000, "adwin", 0.58), (19_001, "ddm", 0.01)],
        "999 events ago, at event 19,001: error rose by 0.01 (ddm).",
    ),
    (
        [(14_900, "adwin", 0.58), (15_100, "ddm", 0.01)],
        "5,100 events ago, at event 14,900: error rose by 0.58 (adwin, ddm).",
    ),
    (
        [(14_000, "adwin", 0.58), (14_161, "ddm", 0.01)],
        "The last alarm was 6,000 events ago, at event 14,000: error rose by 0.58",
    ),
]


@looped(("alarms", "sentence"), TOGETHER)
def test_alarms_of_one_change_are_shown_as_one(shell, alarms, sentence):
    assert sentence in shell.evaluate("didChange", status(alarms=make_alarms(*alarms)))[2]


def test_a_moved_input_between_two_alarms_does_not_separate_them(shell):
    first, second = make_alarms((19_000, "adwin", 0.58), (19_161, "ddm", 0.01))
    told = status(alarms=[first, alarm(19_050, "moved", "temp", "inputs"), second])
    assert "error rose by 0.58 (adwin, ddm)" in shell.evaluate("didChange", told)[2]


WHY = [
    (status(alarms=[alarm(19_000)]), "The rule changed"),
    (
        status(alarms=[alarm(19_000)], features=[{"feature": "hour", "psi": 0.02}]),
        "The rule changed",
    ),
    (
        status(alarms=[alarm(19_000)], features=[{"feature": "hour", "psi": 0.3}]),
        "The inputs moved",
    ),
    (status(alarms=[alarm(19_000), alarm(19_100, "moved", "hour", "inputs")]), "The inputs moved"),
    (status(alarms=[alarm(19_000), alarm(19_100, "moved", "label", "labels")]), "The labels moved"),
    (
        status(alarms=[alarm(19_000), alarm(19_100, "moved", "prediction", "predictions")]),
        "The rule changed",
    ),
    (status(alarms=[alarm(19_000)], detectors=[{"detector": "adwin"}]), "Not known"),
    (status(), "Nothing to explain"),
    (status(alarms=[alarm(19_100, "moved", "prediction", "predictions")]), "The predictions moved"),
]


@looped(("told", "word"), WHY)
def test_series_that_moved_with_the_alarm_name_the_cause(shell, told, word):
    said = shell.evaluate("(told) => whySo(told, ['amount', 'hour'], null)", told)
    assert said[1] == word


WITH = "The error rose with them, so the rule may have changed too."
TEMP = alarm(19_100, "moved", "temp", "inputs", psi=0.58)
LABELS = alarm(19_200, "moved", "label", "labels", psi=0.31)
LATER = [{"feature": "temp", "psi": 0.02}]
SENTENCES = [
    (
        status(alarms=[alarm(19_000), TEMP], features=LATER),
        "The inputs moved",
        f"temp (PSI 0.58 then). {WITH}",
    ),
    (
        status(alarms=[TEMP, alarm(19_300)], features=LATER),
        "The inputs moved",
        f"temp (PSI 0.58 then). {WITH}",
    ),
    (
        status(alarms=[TEMP], features=LATER),
        "The inputs moved",
        "temp (PSI 0.58 then). The error has not followed.",
    ),
    (
        status(alarms=[TEMP], detectors=[{"detector": "inputs"}]),
        "The inputs moved",
        "temp (PSI 0.58 then). The error is not watched.",
    ),
    (
        status(
            alarms=[alarm(19_000), alarm(19_050, "moved", "temp", "inputs", psi=0.2), TEMP, LABELS]
        ),
        "The inputs moved",
        f"temp (PSI 0.58 then) and the labels (PSI 0.31 then). {WITH}",
    ),
    (
        status(alarms=[alarm(19_000), LABELS]),
        "The labels moved",
        f"The share of each label changed (PSI 0.31 then). {WITH}",
    ),
    (
        status(alarms=[LABELS]),
        "The labels moved",
        "The share of each label changed (PSI 0.31 then). The error has not followed.",
    ),
    (
        status(alarms=[alarm(19_000), alarm(19_100, "moved", "label", "inputs")]),
        "The inputs moved",
        f"label. {WITH}",
    ),
    (
        status(alarms=[alarm(19_000)], features=[{"feature": "hour", "psi": 0.3}]),
        "The inputs moved",
        f"hour (PSI 0.30 now). {WITH}",
    ),
    (status(), "Nothing to explain", "Heaviest weights: bias and hour."),
    (status() | {"support": None}, "Nothing to explain", "Heaviest weights: bias and hour."),
    (
        status() | {"support": {"rows": 1200, "room": 10_000}},
        "Nothing to explain",
        "Predictions use 1,200 stored events, of at most 10,000.",
    ),
    (
        status() | {"support": {"rows": 0, "room": 10}},
        "Nothing to explain",
        "No event is stored yet.",
    ),
]


@looped(("told", "word", "sentence"), SENTENCES)
def test_the_explanation_claims_only_what_is_known(shell, told, word, sentence):
    assert shell.evaluate("(told) => whySo(told, ['bias', 'hour'], null)", told)[1:] == [
        word,
        sentence,
    ]


def test_the_bias_is_among_the_heaviest_weights(shell):
    top = [
        {"slot": slot, "name": name, "weight": w}
        for slot, name, w in [(0, "bias", -3), (1, "a", 2), (2, "b", 4)]
    ]
    noted = "([top]) => { note([{ label: 'x', top }], () => NaN, 5); return topWeights.heaviest; }"
    assert shell.evaluate(noted, [top]) == ["b", "bias", "a"]


FEATURES = [{"slot": n, "name": None if n == 3 else f"f{n}", "value": 9 - n} for n in range(1, 7)]
STORED = {
    "coefficient": -1,
    "similarity": 0.5,
    "contribution": -0.5,
    "features_omitted": 0,
    "tree_nodes": 0,
}


@looped(
    ("row", "words"),
    [
        ({"features": FEATURES}, "f1 8, f2 7, slot 3 6, f4 5, 2 more"),
        (
            {"features": FEATURES, "features_omitted": 1000},
            "f1 8, f2 7, slot 3 6, f4 5, 1,002 more",
        ),
        (
            {"features": [*FEATURES[:1], FEATURES[1] | {"collides_with": ["g"]}]},
            "f1 8, f2 (shares its slot with g) 7",
        ),
        ({"features": FEATURES[:1], "tree_nodes": 12}, "f1 8, tree of 12 nodes"),
        ({"features": [], "tree_nodes": 1}, "tree of 1 node"),
        ({"features": []}, "nothing but zeros"),
    ],
)
def test_a_stored_row_is_named_by_its_largest_values(shell, row, words):
    assert shell.evaluate("rowName", STORED | row) == words


@pytest.mark.parametrize(
    ("exact", "last"), [(True, "score"), (False, "score, by votes: the rows only show a tendency")]
)
def test_a_score_is_shown_as_a_sum_of_stored_rows(shell, exact, last):
    omitted = {"count": 1, "contribution": 0.25}
    parts = {
        "support": [STORED | {"features": FEATURES[:1]}],
        "constant": 2,
        "omitted": omitted,
        "score": 1.75,
    }
    lines = shell.evaluate(
        "(parts) => [...explainByRows('', parts).rows].map((row) => [...row.cells].map((cell) =>"
        " cell.textContent))",
        parts | {"exact": exact},
    )
    assert lines == [
        ["stored row", "coefficient", "similarity", "adds"],
        ["f1 8", "−1", "0.5", "−0.5"],
        ["constant", "", "", "2"],
        ["1 more stored row", "", "", "0.25"],
        [last, "", "", "1.75"],
    ]


@looped(
    ("alarms", "words"),
    [
        ([TEMP], "moved at event 19,100"),
        ([TEMP, alarm(19_900, "moved", "temp", "inputs")], "moved at event 19,900"),
        ([alarm(10_000, "moved", "temp", "inputs")], "steady"),
        ([alarm(19_000, "moved", "hour", "inputs")], "steady"),
        ([alarm(19_000, "moved", "temp", "labels")], "steady"),
    ],
)
def test_a_recently_moved_feature_is_not_called_steady(shell, alarms, words):
    drawn = (
        "(told) => { showDrift(told); return"
        " at('features-moved').querySelector('td:last-child').textContent; }"
    )
    told = status(alarms=alarms, features=LATER, detectors=[])
    assert shell.evaluate(drawn, told) == words


def test_improvements_are_listed_among_the_changes(shell):
    drawn = "(told) => { showDrift(told); return at('marks').textContent; }"
    text = shell.evaluate(drawn, status(alarms=[alarm(19_000, "better")], detectors=[]))
    assert text.split("\n")[1].strip() == "Changes found, the newest first"
    assert "error fell by 0.21" in text


NUMBERS = """(told) => {
  showNumbers(told);
  showQuality(told);
  const words = (elements) => [...elements].map((one) => one.textContent);
  const shown = Object.fromEntries([...at("numbers").children].map((one) => words(one.children)));
  const rows = [...at("quality").querySelectorAll("tbody tr")].map((row) => words(row.cells));
  const meanings = [...at("quality").querySelectorAll("[title]")].map((one) => \
[one.textContent, one.title]);
  return { shown, rows, meanings };
}"""
ZERO = {"error_rate": 0.0, "error_rate_last_1000": 0.0}


def all_numbers(events):
    counted = status(events=events) | ZERO | {"lag": 0, "rejects": 0}
    quality = {"error_rate_fading": 0.0, "baselines": {"majority": ZERO, "no_change": ZERO}}
    return counted | {"checkpoint": {"generation": 0, "age_seconds": None}, "quality": quality}


def test_without_events_no_error_is_shown(shell):
    told = shell.evaluate(NUMBERS, all_numbers(0))
    assert {told["shown"]["error, last 1,000"], told["shown"]["error, all"]} == {"–"}
    assert told["shown"]["events learned"] == "0"
    assert not any("%" in cell for row in told["rows"] for cell in row)
    assert shell.evaluate(NUMBERS, all_numbers(1))["shown"]["error, all"] == "0\u00a0%"


MEANING = {"majority": "always the most frequent label so far", "no change": "the last label again"}


def test_baselines_are_named_as_in_the_documentation(shell):
    told = shell.evaluate(NUMBERS, all_numbers(20))
    assert dict(told["meanings"]) == {
        f"baseline, {name}": meaning for name, meaning in MEANING.items()
    }


def test_a_long_name_is_cut_on_the_first_screen(shell):
    long = "x" * 500
    for asked in (
        "whySo(told, [long], null)",
        "whySo(told, [], {name: long, change: 1, seconds: 5})",
    ):
        said = shell.evaluate(f"([told, long]) => {asked}", [status(), long])
        assert long not in said[2]
