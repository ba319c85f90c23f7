"""The page in bad conditions: no events, hostile names, a service that stops, other roles."""

import json
import signal
from itertools import islice

from playwright.sync_api import expect

from service.embedded.payments import payments
from tests.browser.payment_stream import feed
from tests.integration.processes import START_SECONDS, free_port, running, write_config

HOSTILE = "<img src=x onerror=\"document.title='owned'\">"


def check_data_is_served(process):
    """The service answers with all the data that the page shows."""
    assert {"quality", "drift", "last_rejects"} <= process.get("/status")[1].keys(), (
        "/status lacks a part"
    )
    assert process.get("/history")[0] == 200, "there is no GET /history"


def overflow(page):
    return page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )


def test_without_events_the_page_says_so(visit, redis_url, tmp_path):
    feed(redis_url, list(islice(payments(7, 0), 0)))
    config = write_config(tmp_path / "c.yaml", f"{redis_url}/payments", redis_url)
    with running("run", config) as process:
        process.answers("/readyz", 200)
        check_data_is_served(process)
        page = visit.tab()
        page.goto(f"http://127.0.0.1:{process.port}/")
        expect(page.locator("#good-word")).to_contain_text("Nothing learned yet")
        expect(page.locator("#changed-word")).to_contain_text("Nothing learned yet")
        assert (
            page.locator(".answer").evaluate_all("(all) => all.map((one) => one.dataset.mood)")
            == ["none"] * 3
        )
        expect(page.locator("#numbers")).not_to_contain_text("%")
        expect(page.locator("#quality")).not_to_contain_text("%")
        expect(page.locator("#why-word")).to_contain_text("Nothing to explain")
        expect(page.locator("#chart")).to_have_text("The curves begin after the first 200 events.")
        assert "NaN" not in page.locator("body").inner_text()
        assert "undefined" not in page.locator("body").inner_text()
        feed(redis_url, list(islice(payments(7, 0), 30)))
        expect(page.locator("#numbers")).to_contain_text("30")
        expect(page.locator("#good")).to_contain_text("in the last 30 events")
    assert visit.faults == []


def test_hostile_names_are_shown_as_plain_text(visit, redis_url, tmp_path):
    long = "y" * 200
    events = [
        json.dumps(
            {
                "features": {HOSTILE: n % 2, long: (n + 1) % 2, "kind": HOSTILE},
                "label": [HOSTILE, long][n % 2],
            }
        )
        for n in range(400)
    ]
    feed(redis_url, [event.encode() for event in events] + [b"<script>", b"{"])
    learner = {"kind": "one_vs_rest", "max_classes": 3, "base": "pa1"}
    model = {"learner": learner, "label": {"classes": "grow", "max_classes": 3}}
    config = write_config(tmp_path / "c.yaml", f"{redis_url}/payments", redis_url, **model)
    with running("run", config) as process:
        process.answers("/readyz", 200)
        check_data_is_served(process)
        page = visit.tab()
        page.set_viewport_size({"width": 360, "height": 740})
        page.goto(f"http://127.0.0.1:{process.port}/")
        expect(page.locator("#weights")).to_contain_text(HOSTILE)
        expect(page.locator("#weights")).to_contain_text(f"kind={HOSTILE}")
        expect(page.locator("#classes")).to_contain_text(HOSTILE)
        expect(page.locator("#rejects")).to_contain_text("malformed")
        page.fill("#features", json.dumps({HOSTILE: 1, "kind": HOSTILE}))
        page.click("#ask button")
        expect(page.locator("#explained")).to_contain_text(f"kind={HOSTILE}")
        assert page.locator("img").count() == 0
        assert "owned" not in page.title()
        assert overflow(page) == 0
    assert visit.faults == []


def test_the_page_recovers_after_a_restart_of_the_service(visit, redis_url, tmp_path):
    stream = payments(9, 0)
    feed(redis_url, list(islice(stream, 500)))
    config = write_config(
        tmp_path / "c.yaml",
        f"{redis_url}/payments",
        redis_url,
        api={"port": free_port()},
        lease=1.0,
    )
    page = visit.tab()
    page.clock.install()
    with running("run", config) as process:
        process.answers("/readyz", 200)
        page.goto(f"http://127.0.0.1:{process.port}/")
        expect(page.locator("#numbers")).to_contain_text("500")
        process.signal(signal.SIGKILL)
        process.finish()
        expect(page.locator("#trouble")).to_contain_text(
            "the service does not answer: trying again"
        )
        expect(page.locator("#view")).to_have_class("stale")
        expect(page.locator("#numbers")).to_contain_text("500")
    feed(redis_url, list(islice(stream, 50)))
    with running("run", config):
        # The page shows this only for a while, so wait for it first.
        expect(page.locator("#trouble")).to_contain_text(
            "The service answers again", timeout=1000 * START_SECONDS
        )
        expect(page.locator("#numbers")).to_contain_text("550")
        expect(page.locator("#view")).not_to_have_class("stale")
        page.clock.fast_forward(60_000)
        expect(page.locator("#trouble")).to_have_text("")
    assert visit.faults == []


def test_the_page_shows_what_each_role_has(visit, redis_url, tmp_path):
    feed(redis_url, list(islice(payments(8, 0), 2000)))
    config = write_config(tmp_path / "learn.yaml", f"{redis_url}/payments", redis_url)
    replica = write_config(tmp_path / "serve.yaml", f"{redis_url}/payments", redis_url)
    with running("learn", config) as learner, running("serve", replica) as server:
        server.answers("/readyz", 200)
        page = visit.tab()
        page.goto(f"http://127.0.0.1:{learner.port}/")
        expect(page.locator("#numbers")).to_contain_text("2,000")
        expect(page.locator("#kind")).to_contain_text("role learn")
        expect(page.locator("#try")).to_be_hidden()
        page.goto(f"http://127.0.0.1:{server.port}/")
        expect(page.locator("#numbers")).to_contain_text("2,000")
        expect(page.locator("#kind")).to_contain_text("learning by another process")
        page.fill("#features", '{"amount": 3}')
        page.click("#ask button")
        expect(page.locator("#explained")).to_contain_text("amount")
    assert visit.faults == []
