"""The page of a running demo shows growing counts, the planted drift and the reasons of a
prediction.

`ONEPASS_SCREENSHOTS=docs pytest tests/browser/test_demo.py` writes the pictures of the
documentation.
"""

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from service.embedded.payments import DRIFT_EVERY
from tests.browser.conftest import Visit, new_context
from tests.integration.demo import Demo
from tests.waiting import wait_for

FEATURES = (
    '{"amount": 420.5, "age_days": 30, "hour": 3, "distance_km": 2400, "attempts": 6, "country":'
    ' "br"}'
)
SHOWN_SECONDS = 120
PICTURES = os.environ.get("ONEPASS_SCREENSHOTS")
DESK = {"width": 1100, "height": 800}
PHONE = {"width": 360, "height": 760}


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    running = Demo(tmp_path_factory.mktemp("demo"))
    try:
        running.answers("/readyz", 200)
        told = running.get("/status")[1]
        missing = [name for name in ("quality", "drift", "last_rejects") if name not in told]
        assert not missing, f"/status lacks {missing}"
        assert running.get("/history")[0] == 200, "there is no GET /history"
        yield running
    finally:
        running.stop()


@pytest.fixture
def window(chromium):
    """`window(home, size, scheme)` opens the page. At the end, no page may have had a fault or
    asked another host.
    """
    opened = []

    def open_one(home, size=DESK, scheme="light", *, clock=False):
        context = new_context(chromium, viewport=size, color_scheme=scheme, reduced_motion="reduce")
        visit = Visit(context)
        opened.append((context, visit, home))
        page = visit.tab()
        if clock:
            page.clock.install()
        page.goto(home)
        expect(page.locator("#view")).to_be_visible()
        return page

    yield open_one
    for context, visit, home in opened:
        context.close()
        assert visit.faults == []
        assert all(url.startswith(home) for url in visit.asked)


def read_learned(page):
    number = (
        page.locator("#numbers div").filter(has_text="events learned").locator("dd").inner_text()
    )
    return int(number.replace(",", ""))


def wait_until(page, condition, what):
    """Wait for a condition of the page, not of the service: only what is shown counts."""
    wait_for(lambda: condition() or page.wait_for_timeout(100), what, SHOWN_SECONDS)


def keep(page, name, **how):
    if PICTURES:
        page.screenshot(path=Path(PICTURES) / f"page-{name}.png", **how)


def read_marks(page):
    """Return the events at which the chart marks a risen error."""
    titles = page.locator("#chart .drift.worse title").all_text_contents()
    return [int(re.match("event ([0-9,]+):", title)[1].replace(",", "")) for title in titles]


def follows_a_planted_drift(event):
    """Whether the event is soon after a change of the rule. Which change is shown depends on how
    long the kernels were compiled before.
    """
    return event >= DRIFT_EVERY and event % DRIFT_EVERY <= 1000


def overflow(page):
    return page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )


def test_the_page_shows_growth_drift_and_an_explanation(demo, window):
    page = window(demo.home)
    first = read_learned(page)
    wait_until(page, lambda: read_learned(page) > first + 2000, "growing counts")
    expect(page.locator("#chart svg")).to_be_visible()
    points = int(page.locator("#chart svg").get_attribute("data-points"))
    wait_until(
        page,
        lambda: int(page.locator("#chart svg").get_attribute("data-points")) > points,
        "growing curves",
    )
    for name in ("recent", "cumulative", "majority", "no_change"):
        assert page.locator(f"#chart .curve.{name}").get_attribute("d").count("L") > 1, (
            f"a curve of {name}"
        )

    wait_until(
        page,
        lambda: any(map(follows_a_planted_drift, read_marks(page))),
        "a mark after a planted drift",
    )
    expect(page.locator("#alarms")).to_contain_text("error rose by")
    expect(page.locator("#alarms")).to_contain_text("position")
    expect(page.locator("#changed-word")).to_contain_text("Changed")
    assert "error rose by" in page.locator("#chart svg").get_attribute("aria-label")

    page.fill("#features", FEATURES)
    page.click("#ask button")
    expect(page.locator("#answer")).to_contain_text("score")
    expect(page.locator("#explained")).to_contain_text("country=br")
    expect(page.locator("#weights")).to_contain_text("change in")
    if PICTURES:
        wait_until(
            page, lambda: read_learned(page) > 4.7 * DRIFT_EVERY, "some drifts, for the picture"
        )
    keep(page, "light", full_page=True, clip={"x": 0, "y": 0, "width": 1100, "height": 1200})


@pytest.mark.parametrize("shown", ["Quality", "Drift", "Classes"])
def test_each_card_shows_its_numbers(demo, window, shown):
    page = window(demo.home)
    card = page.locator(".card").filter(has=page.get_by_role("heading", name=shown, exact=True))
    wait_until(page, lambda: read_learned(page) > 1000, "events")
    rows = {
        "Quality": [
            "baseline, majority",
            "baseline, no change",
            "kappa, temporal",
            "log loss",
            "calibration error",
        ],
        "Drift": ["adwin", "inputs", "labels", "predictions", "amount"],
        "Classes": ["fine", "fraud"],
    }[shown]
    for row in rows:
        expect(card.locator("tr").filter(has_text=row).first).to_contain_text(re.compile("[0-9]"))


CONTRAST = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const light = (colour) => {
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((c) => c / 255)
      .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    const own = getComputedStyle(element).backgroundColor;
    return own === "rgba(0, 0, 0, 0)" && element.parentElement \
? ground(element.parentElement) : own;
  };
  const texts = [...document.querySelectorAll("#view *, header *")].filter(\
(element) => element.checkVisibility() &&
    !element.closest("fieldset") && \
[...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
  return texts.map((element) => {
    const style = getComputedStyle(element);
    const ink = element instanceof SVGElement ? style.fill : style.color;
    const [more, less] = [light(ink), light(ground(element))].sort((one, other) => other - one);
    return [(more + 0.05) / (less + 0.05), \
`${element.tagName} ${element.id} ${element.textContent.slice(0, 30)}`];
  }).sort(([one], [other]) => one - other);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read_in_light_and_dark(demo, window, scheme):
    page = window(demo.home, scheme=scheme)
    expect(page.locator("#chart svg")).to_be_visible()
    expect(page.locator("#weights table").first).to_be_visible()
    worst, *others = page.evaluate(CONTRAST)
    assert len(others) > 50
    assert worst[0] >= 4.5, f"WCAG AA: {worst}"
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground)[:3])) > 600) == (scheme == "light")
    if scheme == "dark":
        expect(page.locator("#numbers div").filter(has_text="events/s")).to_contain_text(
            re.compile("[0-9]")
        )
        keep(page, "dark")


def test_on_a_phone_nothing_is_wider_than_the_screen(demo, window):
    page = window(demo.home, PHONE)
    expect(page.locator("#chart svg")).to_be_visible()
    page.fill("#features", FEATURES)
    page.click("#ask button")
    expect(page.locator("#explained table")).to_be_visible()
    assert overflow(page) == 0
    for size in (DESK, PHONE):
        page.set_viewport_size(size)
        width = page.evaluate("document.getElementById('chart').clientWidth")
        expect(page.locator(f"#chart svg[width='{width}']")).to_be_visible()
        assert overflow(page) == 0
    keep(page, "phone", full_page=True, clip={"x": 0, "y": 0, "width": 360, "height": 1000})


def focused(page):
    return page.evaluate(
        "document.activeElement.id || document.activeElement.value ||"
        " document.activeElement.tagName"
    )


def tab_to(page, wanted):
    for _ in range(40):
        page.keyboard.press("Tab")
        if focused(page) == wanted:
            return
    raise AssertionError(f"Tab does not lead to {wanted}")


def test_the_page_works_by_keyboard_alone(demo, window):
    page = window(demo.home)
    expect(page.locator("#chart svg")).to_be_visible()
    tab_to(page, "latest")
    page.keyboard.press("ArrowRight")
    assert page.locator("input[value=whole]").is_checked()
    expect(page.locator("#chart svg")).to_have_attribute("aria-label", re.compile("from event 0 "))
    tab_to(page, "SUMMARY")
    page.keyboard.press("Enter")
    expect(page.locator("#points table")).to_be_visible()
    tab_to(page, "alarms")
    tab_to(page, "features")
    page.keyboard.press("Control+A")
    page.keyboard.type(FEATURES)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.matches('#ask button')")
    page.keyboard.press("Enter")
    expect(page.locator("#answer")).to_contain_text("score")
    expect(page.locator("#explained")).to_contain_text("country=br")


HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_a_hidden_tab_sends_no_requests(demo, window):
    page = window(demo.home, clock=True)
    wait_until(page, lambda: read_learned(page) > 0, "events")
    asked, answered = [], []

    def ask(request):
        asked.append(request)

    def answer(request):
        answered.append(request)

    page.on("request", ask)
    page.on("requestfinished", answer)
    page.on("requestfailed", answer)
    wait_until(page, lambda: answered, "an answer")
    page.evaluate(HIDE, arg=True)
    wait_until(page, lambda: set(asked) <= set(answered), "open requests end")
    asked.clear()
    page.clock.run_for(60_000)
    assert asked == []
    page.evaluate(HIDE, arg=False)

    def names():
        return {one.url.rsplit("/", 1)[1].partition("?")[0] for one in asked}

    wait_until(page, lambda: names() == {"status", "history", "weights"}, "the page asks again")
