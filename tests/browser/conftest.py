"""A real browser: headless Chromium."""

import os
import shutil

import pytest
from playwright.sync_api import expect, sync_playwright

from service.api.views import PAGE
from tests.waiting import HANG_SECONDS

PATIENCE = 1000 * HANG_SECONDS
"""Milliseconds that any step may take; longer is a hang."""
expect.set_options(timeout=PATIENCE)


def find_chromium():
    """Return the path of Chromium. Without it the tests are skipped; in CI they fail."""
    found = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if found is None and os.environ.get("CI") == "true":
        pytest.fail("no Chromium: apt-get install chromium", pytrace=False)
    if found is None:
        pytest.skip("THE PAGE WAS NOT TESTED: apt-get install chromium")
    return found


@pytest.fixture(scope="module")
def chromium():
    """One browser per module: while it is open, this thread has a running event loop, and other
    tests start their own.
    """
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=["--no-sandbox"], timeout=PATIENCE
        )
        yield browser
        browser.close()


def new_context(browser, **options):
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE)
    return context


class Visit:
    """The pages of one browser context, with their faults and the URLs that they requested."""

    def __init__(self, context):
        self._context = context
        self.faults = []
        self.asked = []

    def tab(self):
        page = self._context.new_page()
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", self._noted)
        page.on("request", lambda request: self.asked.append(request.url))
        return page

    def _noted(self, message):
        # The browser itself reports a refused request on the console; that is no fault of the page.
        if message.type in {"error", "warning"} and "Failed to load resource" not in message.text:
            self.faults.append(message.text)


@pytest.fixture
def visit(chromium):
    context = new_context(chromium)
    yield Visit(context)
    context.close()


@pytest.fixture(scope="module")
def shell(chromium):
    """The page alone, without a service: the tests call its functions with their own numbers."""
    context = new_context(chromium)
    page = context.new_page()
    page.route(
        "**/*", lambda route: route.fulfill(body=PAGE, content_type="text/html; charset=utf-8")
    )
    page.goto("http://127.0.0.1/")
    yield page
    context.close()
