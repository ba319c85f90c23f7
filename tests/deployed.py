"""The dashboards and rules of `deploy/`, and the series that they name."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml

DEPLOY = Path(__file__).parents[1] / "deploy"
DASHBOARDS = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
RULES = sorted((DEPLOY / "prometheus" / "rules").glob("*.yml"))
RULE_TESTS = sorted((DEPLOY / "prometheus" / "tests").glob("*.yml"))

METRIC = re.compile(r"(?<![\w:])onepass_\w+\b(?!:)")
RECORDED = re.compile(r"\b\w+:onepass_\w+:\w+")


class Query(NamedTuple):
    """One query that a dashboard sends to Prometheus."""

    place: str
    expr: str
    instant: bool = False


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def boards() -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in DASHBOARDS}


def panel_queries() -> list[Query]:
    return [
        Query(f"{name}: {panel['title']}: {target['refId']}", target["expr"], target["instant"])
        for name, board in boards().items()
        for panel in board["panels"]
        for target in panel["targets"]
    ]


def annotation_queries() -> list[Query]:
    return [
        Query(f"{name}: annotation {mark['name']}", mark["expr"])
        for name, board in boards().items()
        for mark in board["annotations"]["list"]
    ]


def variable_queries() -> list[Query]:
    return [
        Query(f"{name}: variable {variable['name']}", variable["definition"])
        for name, board in boards().items()
        for variable in board["templating"]["list"]
    ]


def rules() -> list[dict[str, Any]]:
    return [
        rule for path in RULES for group in read_yaml(path)["groups"] for rule in group["rules"]
    ]


def expressions() -> list[str]:
    """Return every expression that a dashboard or a rule asks Prometheus."""
    asked = [*panel_queries(), *annotation_queries(), *variable_queries()]
    return [query.expr for query in asked] + [rule["expr"] for rule in rules()]
