"""/status as the page receives it."""


def status(events=20_000, recent=0.09, majority=0.27, no_change=0.4, alarms=(), **drift):
    classes = [{"label": "fine", "events": 14_000}, {"label": "fraud", "events": 6000}]
    baselines = {
        "majority": {"error_rate_last_1000": majority},
        "no_change": {"error_rate_last_1000": no_change},
    }
    watched = [{"detector": "adwin"}, {"detector": "inputs"}, {"detector": "labels"}]
    return {
        "events": events,
        "error_rate_last_1000": recent,
        "quality": {"baselines": baselines, "classes": classes},
        "drift": {"detectors": watched, "features": [], "alarms": list(alarms)} | drift,
    }


def alarm(event, change="worse", series="error", detector="adwin", at=0.0, size=0.213, psi=None):
    named = {"event": event, "change": change, "series": series, "detector": detector}
    return named | {
        "size": size,
        "psi": psi,
        "at": at,
        "actions": [],
        "partition": "0",
        "position": str(event),
    }
