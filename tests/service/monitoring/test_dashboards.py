"""Dashboards and rules use only metrics of the service, and all of them; they have the form that
Grafana and Prometheus read.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from service.monitoring.metrics import Metrics
from tests.deployed import (
    DASHBOARDS,
    DEPLOY,
    METRIC,
    RECORDED,
    RULE_TESTS,
    RULES,
    annotation_queries,
    boards,
    expressions,
    panel_queries,
    read_yaml,
    rules,
)
from tests.looped import looped
from tests.service.monitoring.grafana_form import Board, Panel

SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
TITLES = {
    "quality": "Model quality",
    "drift": "Drift",
    "stream": "Stream & state",
    "serving": "Serving",
}
UNITS = {"none", "short", "percentunit", "s", "bytes", "eps", "reqps"}
SELECTED = '{model=~"$model",instance=~"$instance"'


def list_exported() -> dict[str, set[str]]:
    """Return each metric of the service -> the names that its series have in a scrape."""
    registry = CollectorRegistry()
    Metrics(registry, model="m")
    return {
        metric.name: {metric.name + suffix for suffix in SUFFIXES.get(metric.type, ("",))}
        for metric in registry.collect()
    }


def test_the_four_dashboards_exist():
    assert {name: board["title"] for name, board in boards().items()} == TITLES
    assert {board["uid"] for board in boards().values()} == {f"onepass-{name}" for name in TITLES}


@looped("path", DASHBOARDS, ids=lambda path: path.stem)
def test_each_dashboard_has_variables_annotations_and_links(path: Path):
    board = Board.model_validate_json(path.read_text(encoding="utf-8"))
    assert [
        (each.name, each.query.query == each.definition) for each in board.templating["list"]
    ] == [
        ("model", True),
        ("instance", True),
    ]
    assert [mark.name for mark in board.annotations["list"]] == [
        "Drift alarms",
        "Rollbacks",
        "Restarts",
    ]
    assert [link.tags for link in board.links] == [board.tags], (
        "each dashboard must link to the others"
    )
    ids = [panel.id for panel in board.panels]
    assert len(ids) == len(set(ids))
    titles = [panel.title for panel in board.panels]
    assert len(titles) == len(set(titles))


@looped("path", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_fill_the_grid(path: Path):
    places = [
        panel.grid_pos
        for panel in Board.model_validate_json(path.read_text(encoding="utf-8")).panels
    ]
    cells = [
        (x, y) for at in places for x in range(at.x, at.x + at.w) for y in range(at.y, at.y + at.h)
    ]
    assert len(cells) == len(set(cells)), "two panels overlap"
    wide, high = (1 + max(cell[axis] for cell in cells) for axis in (0, 1))
    assert len(cells) == wide * high, "the grid has a hole"
    assert wide == 24


PANELS = {
    f"{name}: {panel['title']}": Panel.model_validate(panel)
    for name, board in boards().items()
    for panel in board["panels"]
}


@looped("panel", PANELS.values(), PANELS)
def test_each_panel_has_a_unit_thresholds_and_valid_targets(panel: Panel):
    defaults = panel.field_config.defaults
    assert defaults.unit in UNITS or defaults.unit.startswith("suffix:")
    refs = [target.ref_id for target in panel.targets]
    assert refs == list("ABCDEFGH"[: len(refs)])
    assert all(target.instant is not target.range for target in panel.targets)
    assert all((target.format == "table") is (panel.type == "table") for target in panel.targets)
    for override in panel.field_config.overrides:
        if override.matcher.id == "byFrameRefID":
            assert override.matcher.options in refs
    if panel.type in {"stat", "bargauge"}:
        assert defaults.thresholds
        assert defaults.no_value
    if defaults.thresholds:
        first, *rest = [step.value for step in defaults.thresholds.steps]
        assert first is None
        assert None not in rest
        assert rest == sorted(rest)


@looped("query", [*panel_queries(), *annotation_queries()], ids=lambda query: query.place)
def test_each_query_selects_the_chosen_models_and_processes(query):
    assert len(METRIC.findall(query.expr)) == query.expr.count(SELECTED)
    assert len(RECORDED.findall(query.expr)) == query.expr.count('{model=~"$model"}')
    assert (
        METRIC.search(query.expr) or RECORDED.search(query.expr) or query.expr.startswith("min(up{")
    )


@looped("path", [*DASHBOARDS, *RULES, *RULE_TESTS], ids=lambda path: path.name)
def test_every_named_metric_is_exported(path: Path):
    named = set(METRIC.findall(path.read_text(encoding="utf-8")))
    assert named - set().union(*list_exported().values()) == set()


def test_every_exported_metric_is_used():
    used = {name for expression in expressions() for name in METRIC.findall(expression)}
    assert [metric for metric, names in list_exported().items() if not names & used] == []


def test_recording_rules_match_the_series_in_use():
    recorded = [rule["record"] for rule in rules() if "record" in rule]
    assert len(recorded) == len(set(recorded))
    assert {name for expression in expressions() for name in RECORDED.findall(expression)} == set(
        recorded
    )


ALERTS = {rule["alert"]: rule for rule in rules() if "alert" in rule}


def rule_tests() -> list[dict[str, Any]]:
    return [
        each
        for path in RULE_TESTS
        for test in read_yaml(path)["tests"]
        for each in test["promql_expr_test"]
    ]


@looped("name", ALERTS)
def test_each_alert_has_severity_texts_and_documentation(name: str):
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["annotations"].keys() == {"summary", "description"}
    assert len(rule["annotations"]["description"]) > 100
    page = (DEPLOY.parent / "docs" / "dashboards.md").read_text(encoding="utf-8")
    assert f"| `{name}` | {rule['labels']['severity']} |" in page


@looped("name", ALERTS)
def test_each_alert_is_tested_to_fire_and_to_stay_silent(name: str):
    asked = [each for each in rule_tests() if f'ALERTS{{alertname="{name}"' in each["expr"]]
    fired = [sample["labels"] for each in asked for sample in each["exp_samples"]]
    assert any(not each["exp_samples"] for each in asked)
    assert fired
    # A text may use only labels of the alert; another label would become "<no value>".
    text = "".join(ALERTS[name]["annotations"].values())
    for label in re.findall(r"\$labels\.(\w+)", text):
        assert all(f'{label}="' in labels for labels in fired)


@looped(
    "arguments",
    [
        ("check", "config", DEPLOY / "prometheus" / "prometheus.yml"),
        ("check", "rules", *RULES),
        ("test", "rules", *RULE_TESTS),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_promtool_accepts_configuration_rules_and_rule_tests(arguments: tuple[Any, ...]):
    promtool = shutil.which("promtool")
    if promtool is None and os.environ.get("CI") == "true":
        pytest.fail("no promtool: apt-get install prometheus", pytrace=False)
    if promtool is None:
        pytest.skip("PROMETHEUS' FILES WERE NOT CHECKED: apt-get install prometheus")
    check = subprocess.run([promtool, *arguments], capture_output=True, text=True, check=False)
    assert check.returncode == 0, check.stdout + check.stderr
