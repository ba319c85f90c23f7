"""The first screen in words: what it says of a status, as a function of that status."""

import time

import pytest


def status(events=20_000, recent=0.09, majority=0.27, no_change=0.4, alarms=(), **drift):
    classes = [{"label": "fine", "events": 14_000}, {"label": "fraud", "events": 6000}]
    baselines = {"majority": {"error_rate_last_1000": majority}, "no_change": {"error_rate_last_1000": no_change}}
    watched = [{"detector": "adwin"}, {"detector": "inputs"}, {"detector": "labels"}]
    return {
        "events": events,
        "error_rate_last_1000": recent,
        "quality": {"baselines": baselines, "classes": classes},
        "drift": {"detectors": watched, "features": [], "alarms": list(alarms)} | drift,
    }


def alarm(event, change="worse", series="error", detector="adwin", at=0.0):
    return {"event": event, "change": change, "series": series, "detector": detector, "size": 0.213, "at": at}


GOOD = [
    (status(), "good", "Good", "9 % errors in the last 1,000 events, a third of the 27 % of always saying “fine”."),
    (status(events=40, recent=0.0), "good", "Good", "0 % errors in the last 40 events, against the 27 % of"),
    (status(recent=0.2), "fair", "Fair", "three quarters of the 27 %"),
    (status(recent=0.27), "fair", "No better than a guess", "about the 27 %"),
    (
        status(recent=0.4),
        "bad",
        "Worse than a guess",
        "40 % errors in the last 1,000 events, more than the 27 % of always",
    ),
    (status(no_change=0.02), "bad", "Worse than a guess", "more than the 2 % of repeating the last label"),
    (status(majority=0.0, no_change=0.0, recent=0.0), "good", "Good", "all their labels were the same"),
    (status(majority=0.0, no_change=0.0), "bad", "Worse than a guess", "had none"),
    (status(events=0, recent=None), "none", "No events yet", ""),
    (status(majority=None, no_change=None), "none", "9 %", "9 % errors"),
    (status() | {"quality": None}, "none", "9 %", "9 % errors"),
]


@pytest.mark.parametrize(("told", "mood", "word", "sentence"), GOOD)
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
        "1,000 events ago, at event 19,000: error rose by 0.21 (adwin).",
    ),
    (status(alarms=[alarm(10_000)]), "good", "Steady", "10,000 events ago, at event 10,000: error rose"),
    (status(alarms=[alarm(19_000, "better")]), "good", "Steady", "No alarm"),
    (status(alarms=[alarm(19_000, "moved", "hour", "inputs")]), "moved", "Changed", "hour moved by 0.21 (inputs)."),
    (status(alarms=[alarm(19_000), alarm(19_100, "moved", "hour", "inputs")]), "worse", "Changed", "error rose"),
    (status(detectors=[]), "none", "Not watched", ""),
    (status() | {"drift": None}, "none", "Not known", ""),
]


@pytest.mark.parametrize(("told", "mood", "word", "sentence"), CHANGED)
def test_an_alarm_of_lately_is_news(shell, told, mood, word, sentence):
    said = shell.evaluate("didChange", told)
    assert said[:2] == [mood, word]
    assert sentence in said[2]


def test_on_a_fast_stream_an_alarm_is_news_for_a_minute(shell):
    assert shell.evaluate("didChange", status(events=10**7, alarms=[alarm(10, at=time.time() - 5)]))[1] == "Changed"
    assert shell.evaluate("didChange", status(events=10**7, alarms=[alarm(10, at=time.time() - 90)]))[1] == "Steady"


WHY = [
    (status(alarms=[alarm(19_000)]), "The rule changed"),
    (status(alarms=[alarm(19_000)], features=[{"feature": "hour", "psi": 0.02}]), "The rule changed"),
    (status(alarms=[alarm(19_000)], features=[{"feature": "hour", "psi": 0.3}]), "The inputs moved"),
    (status(alarms=[alarm(19_000), alarm(19_100, "moved", "hour", "inputs")]), "The inputs moved"),
    (status(alarms=[alarm(19_000), alarm(19_100, "moved", "label", "labels")]), "The labels moved"),
    (status(alarms=[alarm(19_000), alarm(19_100, "moved", "prediction", "predictions")]), "The rule changed"),
    (status(alarms=[alarm(19_000)], detectors=[{"detector": "adwin"}]), "Not known"),
    (status(), "What decides"),
]


@pytest.mark.parametrize(("told", "word"), WHY)
def test_what_moved_with_the_alarm_says_why(shell, told, word):
    said = shell.evaluate("(told) => whySo(told, ['amount', 'hour'], null)", told)
    assert said[1] == word


def test_a_long_name_does_not_fill_the_first_screen(shell):
    long = "x" * 500
    for asked in ("whySo(told, [long], null)", "whySo(told, [], {name: long, change: 1, seconds: 5})"):
        said = shell.evaluate(f"([told, long]) => {asked}", [status(), long])
        assert long not in said[2]
