"""docs/reliability.md is up to date with its figures, and the files of every part exist."""

import json

from tests.chaos.page import page
from tests.chaos.run import KEPT, PAGE, PARTS, ROOT


def test_the_page_matches_the_kept_figures():
    kept = json.loads(KEPT.read_text())
    assert PAGE.read_text() == page({name: kept[name] for name in PARTS if name in kept})


def test_a_part_shows_its_command_date_machine_and_figures():
    part = {
        "date": "2026-01-31",
        "machine": "2 cores",
        "minutes": 1.5,
        "figures": [{"fault": "Redis: FLUSHALL", "rounds": 20_000, "cpu": "1.5%"}],
    }
    shown = page({"redis": part})
    assert "`make chaos PART=redis` · 2026-01-31 (UTC) · 2 cores · 1.5 minutes" in shown
    assert "| Redis: FLUSHALL | rounds 20,000, cpu 1.5% |" in shown


def test_the_files_of_every_part_exist():
    assert all((ROOT / "tests" / file).is_file() for part in PARTS.values() for file in part.files)
