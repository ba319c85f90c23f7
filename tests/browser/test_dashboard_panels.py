"""Draw every panel of the Grafana dashboards in a browser, from the answers of a real Prometheus.

`ONEPASS_SCREENSHOTS=docs pytest tests/browser/test_dashboard_panels.py` writes the picture of the
documentation.
"""

import os
import time
from pathlib import Path

import pytest

from tests.browser.conftest import Visit, new_context
from tests.browser.panels import draw_board
from tests.deployed import boards
from tests.integration.scraped_demo import scraped_demo
from tests.waiting import wait_for

PICTURES = os.environ.get("ONEPASS_SCREENSHOTS")
EVENTS = 25_000
"""Events; the rule of the demo's stream changes after 10,000 and after 20,000."""
FIRST_ROWS = 15
"""Rows of the grid that the picture shows."""
SIZE = {"width": 1130, "height": 480}


@pytest.fixture(scope="module")
def watched_demo(tmp_path_factory):
    with scraped_demo(tmp_path_factory.mktemp("prometheus")) as (prometheus, demo):
        began = time.time()
        wait_for(lambda: demo.events() >= EVENTS, "two drifts")
        yield prometheus, demo, began


def test_every_panel_is_drawn(chromium, watched_demo):
    prometheus, demo, began = watched_demo
    context = new_context(chromium, viewport=SIZE)
    visit = Visit(context)
    page = visit.tab()
    for name, board in boards().items():
        page.set_content(draw_board(board, prometheus, demo, (began, time.time())))
        titles = page.locator(".panel h2").all_inner_texts()
        assert titles == [panel["title"] for panel in board["panels"]]
        empty = page.locator(".panel:has(.empty) h2").all_inner_texts()
        assert not empty, f"{name}: no data for {empty}"
    if PICTURES:
        shown = draw_board(boards()["quality"], prometheus, demo, (began, time.time()), FIRST_ROWS)
        page.set_content(shown)
        page.screenshot(path=Path(PICTURES) / "dashboard.png")
    assert not visit.faults
    context.close()
