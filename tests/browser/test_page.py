"""The page as a reader sees it: one key per tab, live numbers, an explained prediction, no request
to another host.
"""

import json
import re
from itertools import islice

import pytest
from playwright.sync_api import expect

from service.embedded.payments import payments
from tests.browser.payment_stream import feed
from tests.integration.processes import free_port, onepass, running, write_config

FEATURES = '{"amount": 420.5, "attempts": 6, "country": "br"}'


@pytest.fixture
def keys(tmp_path):
    """A keys file, and its keys by name."""
    path = tmp_path / "keys.yaml"
    made = {}
    for name, scopes in {"reader": ["metrics", "predict"], "caller": ["predict"]}.items():
        flags = [flag for scope in scopes for flag in ("--scope", scope)]
        done = onepass("keys", "new", "--file", path, "--name", name, *flags)
        assert done.returncode == 0, done.stderr
        made[name] = done.stdout.strip().split()[-1]
    return path, made


def give_key(page, key):
    page.fill("#key", key)
    page.press("#key", "Enter")


def check_refused(page):
    expect(page.locator("#trouble")).not_to_be_empty()
    expect(page.locator("#view")).to_be_hidden()


def try_a_wrong_key(visit, page):
    give_key(page, "op_wrong")
    check_refused(page)
    before = len(visit.asked)
    page.clock.run_for(60_000)
    assert len(visit.asked) == before, "the page sends no request while it asks for a key"
    expect(page.locator("#door")).to_be_visible()


def test_the_page_asks_for_a_key_once_per_tab(visit, redis_url, tmp_path, keys):
    path, made = keys
    stream = payments(7, 0)
    feed(redis_url, list(islice(stream, 300)))
    api = {"port": free_port(), "keys_file": str(path)}
    config = write_config(tmp_path / "c.yaml", f"{redis_url}/payments", redis_url, api=api)
    with running("run", config) as process:
        process.answers("/readyz", 200)
        home = f"http://127.0.0.1:{process.port}/"
        page = visit.tab()
        page.clock.install()
        page.goto(home)
        expect(page.locator("#door")).to_be_visible()
        expect(page.locator("#view")).to_be_hidden()

        try_a_wrong_key(visit, page)
        give_key(page, made["reader"])
        expect(page.locator("#view")).to_be_visible()
        expect(page.locator("#door")).to_be_hidden()
        expect(page.locator("#numbers")).to_contain_text("300")
        feed(redis_url, list(islice(stream, 45)))
        expect(page.locator("#numbers")).to_contain_text("345")

        page.reload()
        expect(page.locator("#view")).to_be_visible()
        page.click("#leave")
        expect(page.locator("#door")).to_be_visible()
        give_key(page, made["reader"])
        expect(page.locator("#view")).to_be_visible()
        assert made["reader"] not in page.content()

        other = visit.tab()
        other.goto(home)
        expect(other.locator("#door")).to_be_visible()
        give_key(other, made["caller"])
        check_refused(other)
    assert visit.faults == []
    assert all(url.startswith(home) for url in visit.asked)


def test_without_keys_the_page_is_open_and_explains_a_prediction(visit, redis_url, tmp_path):
    feed(redis_url, list(islice(payments(8, 0), 2000)))
    config = write_config(tmp_path / "c.yaml", f"{redis_url}/payments", redis_url)
    with running("run", config) as process:
        process.answers("/readyz", 200)
        page = visit.tab()
        page.goto(f"http://127.0.0.1:{process.port}/")
        expect(page.locator("#numbers")).to_contain_text("2,000")
        assert "amount" in page.input_value("#features"), "an example to begin with"
        expect(page.locator("#weights")).to_contain_text("amount")
        page.fill("#features", "{")
        page.click("#ask button")
        expect(page.locator("#answer")).to_have_text("this is not JSON")
        page.fill("#features", FEATURES)
        page.click("#ask button")
        expect(page.locator("#answer")).to_contain_text("probability")
        expect(page.locator("#explained")).to_contain_text("country=br")
        expect(page.locator("#explained")).to_contain_text("bias")
        page.fill("#features", '{"amount": "much"}')
        page.click("#ask button")
        expect(page.locator("#answer")).to_contain_text("must be a number")
    assert visit.faults == []


def test_the_page_explains_several_classes_and_flat_events(visit, redis_url, tmp_path):
    events = [
        json.dumps({"size": n % 3, "kind": "abc"[n % 3], "label": "xyz"[n % 3]}).encode()
        for n in range(300)
    ]
    feed(redis_url, events)
    learner = {"kind": "one_vs_rest", "max_classes": 3, "base": "pa1"}
    model = {"learner": learner, "label": {"classes": "grow", "max_classes": 3}}
    features = {"columns": ["size"], "bits": 8, "flat": True}
    config = write_config(
        tmp_path / "c.yaml", f"{redis_url}/payments", redis_url, **model, features=features
    )
    with running("run", config) as process:
        process.answers("/readyz", 200)
        page = visit.tab()
        page.goto(f"http://127.0.0.1:{process.port}/")
        expect(page.locator("#numbers")).to_contain_text("300")
        page.fill("#features", '{"size": 1, "kind": "b"}')
        page.click("#ask button")
        expect(page.locator("#answer")).to_contain_text("y: score")
        expect(page.locator("#explained")).to_contain_text("runner-up")
        expect(page.locator("#weights")).to_contain_text("kind=a")
    assert visit.faults == []


def test_a_kernel_model_shows_its_stored_rows(visit, redis_url, tmp_path):
    events = [
        json.dumps(
            {"features": {"size": n % 3, "kind": "abc"[n % 3]}, "label": "xyz"[n % 3]}
        ).encode()
        for n in range(300)
    ]
    feed(redis_url, events)
    base = {"kind": "k-perceptron", "max_support": 40}
    model = {
        "learner": {"kind": "one_vs_rest", "max_classes": 3, "base": base},
        "label": {"classes": "grow", "max_classes": 3},
        "features": {"columns": ["size"], "bits": 8},
    }
    config = write_config(tmp_path / "c.yaml", f"{redis_url}/payments", redis_url, **model)
    with running("run", config) as process:
        process.answers("/readyz", 200)
        page = visit.tab()
        page.goto(f"http://127.0.0.1:{process.port}/")
        expect(page.locator("#numbers")).to_contain_text("300")
        expect(page.locator("#numbers")).to_contain_text("of 120")
        expect(page.locator("#why")).to_contain_text("stored events, of at most 120.")
        expect(page.locator("#weights-title")).to_have_text("Heaviest stored rows")
        expect(page.locator("#weights caption").first).to_have_text(
            re.compile(r"^x: \d+ of 40 rows stored$")
        )
        expect(page.locator("#weights")).to_contain_text("kind=a 1")
        page.fill("#features", '{"size": 1, "kind": "b"}')
        page.click("#ask button")
        expect(page.locator("#answer")).to_contain_text("y: score")
        tables = page.locator("#explained table")
        expect(tables).to_have_count(2)
        expect(tables.first.locator("thead")).to_have_text("stored rowcoefficientsimilarityadds")
        expect(tables.first.locator("tbody th").first).to_contain_text("kind=b 1")
        expect(tables.nth(1).locator("caption")).to_contain_text("runner-up")
    assert visit.faults == []
