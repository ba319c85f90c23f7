"""A page of another site, in a real browser: it can neither post to a service without keys nor read
from it.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import sync_playwright
from redis import Redis

from tests.browser.conftest import PATIENCE, find_chromium, new_context
from tests.integration.processes import running, write_config

EVENT = json.dumps({"features": {"amount": 1}, "label": "fraud"})
ATTACK = """async ([url, kind, body]) => {
  const headers = kind ? {"content-type": kind} : {};
  try {
    const reply = await fetch(url, {method: body ? "POST" : "GET", \
mode: kind ? "cors" : "no-cors", headers, body});
    return [reply.status, await reply.text()];
  } catch (error) {
    return [0, String(error)];
  }
}"""
FORM = """([url, body]) => {
  const form = document.createElement("form");
  Object.assign(form, {method: "POST", action: url, enctype: "text/plain"});
  const field = document.createElement("input");
  field.name = body.slice(0, -1) + ', "id": "';
  field.value = '"}';
  form.append(field);
  document.body.append(form);
  form.submit();
}"""


class Elsewhere(BaseHTTPRequestHandler):
    """The server of another site."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>elsewhere</title><body></body>")

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def elsewhere():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def tab():
    """A page of a browser that resolves evil.test to this machine, as after DNS rebinding."""
    flags = ["--no-sandbox", "--host-resolver-rules=MAP evil.test 127.0.0.1"]
    flags.append("--disable-features=LocalNetworkAccessChecks")  # some browsers lack this check
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=flags, timeout=PATIENCE
        )
        yield new_context(browser).new_page()
        browser.close()


def test_a_page_of_another_site_can_neither_write_nor_read(tab, elsewhere, redis_url, tmp_path):
    config = write_config(tmp_path / "c.yaml", f"{redis_url}/payments", redis_url)
    with Redis.from_url(redis_url) as redis, running("run", config) as process:
        process.answers("/readyz", 200)
        service = f"127.0.0.1:{process.port}"
        for page in (f"http://evil.test:{elsewhere}/", f"http://127.0.0.1:{elsewhere}/"):
            tab.goto(page)
            for kind in ("", "application/json", "text/plain"):
                tab.evaluate(ATTACK, [f"http://{service}/events", kind, EVENT])
            tab.evaluate(FORM, [f"http://{service}/events", EVENT])
            tab.wait_for_url(f"http://{service}/events")
            assert "cross_site" in tab.content()
        assert redis.xlen("payments") == 0

        # The page came from its own server; from here on its name resolves to the service.
        page = f"http://evil.test:{process.port}/"
        tab.route(
            page, lambda route: route.fulfill(body="<title>evil</title>", content_type="text/html")
        )
        tab.goto(page)
        for path, body in (
            ("/status", None),
            ("/metrics", None),
            ("/predict", EVENT),
            ("/events", EVENT),
        ):
            status, text = tab.evaluate(ATTACK, [path, "application/json", body])
            assert (status, "api.hosts" in text) == (421, True), text
            assert "onepass_" not in text
            assert "error_rate" not in text
        assert redis.xlen("payments") == 0

        tab.goto(f"http://{service}/")
        tab.evaluate(ATTACK, ["/events", "application/json", EVENT])
        assert redis.xlen("payments") == 1, "the service's own page can write"
