"""The composition root: build a role, serve HTTP in the main thread, learn or follow in another, stop cleanly."""

import gc
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Literal

from service.api import Context, make_app
from service.appender import Appender
from service.copies import CopyFolder
from service.errors import BadSettings, Protective, Unfinished, Unsaved, refused
from service.events import Decoder
from service.flights import Flights
from service.follower import Follower
from service.health import Health
from service.keeper import Keeper
from service.letters import Letters, nowhere
from service.listening import Admin, bound, is_loopback, keyring, make_server
from service.log_settings import SideLog
from service.metrics import Metrics, Registry
from service.model import Model
from service.pace import Pace
from service.restart import Restart
from service.settings import Settings
from service.sources import check_sink, check_source, create_log, log_name, open_sink, open_source, url_beside
from service.sources.contract import Options, Sink
from service.status import status_of
from service.store import RedisStore
from service.warming import warmed
from service.watchdog import Watchdog
from service.worker import Worker

log = logging.getLogger("onepass")

Role = Literal["run", "learn", "serve"]

STOP_SECONDS = 9.0
DRAIN_SECONDS = 2.0
"""Of those, kept for open requests even if the last checkpoint is not written by then."""
SWITCH_SECONDS = 0.0001
"""How long the learner may keep the interpreter from a waiting prediction; the default of 5 ms is felt in the tail."""


class Service:
    """One process of one model."""

    def __init__(
        self,
        settings: Settings,
        role: Role,
        *,
        until_end: bool = False,
        start_fresh: bool = False,
        insecure: bool = False,
    ) -> None:
        self.settings = settings
        self.health = Health(role)
        self.failure: BaseException | None = None
        self._role = role
        self._stop = threading.Event()
        self._deadline = 0.0
        self._decoder = Decoder(settings.features, settings.label, settings.limits, settings.names)
        with refused():
            self.model = Model(settings.learner, settings.features, settings.label, self._decoder, settings.drift)
        self._metrics = Metrics(Registry(), settings.name, kafka=settings.source.url.startswith("kafka:"))
        self._store = RedisStore(settings.store, settings.name)
        self._work: Worker | Follower = Follower(self.model, self._store, self._metrics, self.health)
        if role != "serve":
            self._work = self._worker(self._work, until_end=until_end, start_fresh=start_fresh)
        keys = keyring(settings.api)
        self._socket = bound(settings.api.host, settings.api.port, open_to_others=insecure or keys is not None)
        self.port = self._socket.getsockname()[1]
        if keys is None and not is_loopback(self._socket):
            log.warning(
                "--insecure: whoever reaches %s:%s can ask all of it without a key", settings.api.host, self.port
            )
        door = Decoder(settings.features, settings.label, settings.limits)
        self._appender = _appender(settings)
        context = Context(settings, door, self.model, self._metrics, self.health, self._appender)
        app = make_app(context, predicts=role != "learn", keys=keys)
        courtesy = self.health.requests
        flights = Flights(settings.api.max_in_flight, self._metrics.refused, courtesy.arrived, courtesy.answered)
        self._server = make_server(app, settings.api, flights)
        self._admin = Admin(context) if settings.api.admin else None

    def _worker(self, follower: Follower, *, until_end: bool, start_fresh: bool) -> Worker:
        settings, store = self.settings, self.settings.store
        pace = Pace(store.every_seconds, store.every_events, store.max_unsaved_seconds, store.max_unsaved_events)
        copies = CopyFolder(store.copies, settings.name) if store.copies else None
        restart = Restart(self.model, self._store, copies, self._metrics, self.health, start_fresh=start_fresh)
        source, reading = settings.source, _reading(settings)
        with refused():
            check_source(source.url, reading)
        return Worker(
            log_name(source.url),
            settings.poll_records,
            self.model,
            self._decoder,
            Keeper(pace, self.model, self._store, restart, copies, self._metrics, self.health),
            follower,
            lambda: open_source(source.url, source.start, reading),
            Letters(
                settings.name,
                _side_sink(settings, settings.dead_letters, "dead_letters", ".dead"),
                _side_sink(settings, settings.drift.alarms, "drift.alarms", ".alarms"),
                wait_for_alarms=settings.drift.alarms is not None,
            ),
            self._metrics,
            self.health,
            until_end=until_end,
        )

    def run(self) -> int:
        """Until SIGTERM, Ctrl-C or the end of the work; the exit status."""
        sys.setswitchinterval(SWITCH_SECONDS)
        thread = threading.Thread(target=self._guarded, name=self._role, daemon=True)
        with _signals(self.stop):
            thread.start()
            if isinstance(self._work, Worker):
                watchdog = Watchdog(self.health, self._work.renew_source)
                threading.Thread(target=watchdog.watch, args=[self._stop], name="watchdog", daemon=True).start()
            api = self.settings.api
            scheme = "https" if api.tls else "http"
            log.info("%s of %s on %s://%s:%s", self._role, self.settings.name, scheme, api.host, self.port)
            with self._admin or nullcontext():
                self._server.run(sockets=[self._socket])
            self.stop()
            thread.join(max(0.1, self._deadline - time.monotonic()))
            if self._appender is not None:
                self._appender.close()
        if thread.is_alive():
            log.error("stopped without a last checkpoint: the %s thread does not end", self._role)
        if isinstance(self.failure, (Protective, BadSettings)):
            raise self.failure
        if self.failure or thread.is_alive():
            return 1
        self._tell_the_end()
        return 0

    def _tell_the_end(self) -> None:
        events, generation, _ = self.model.served()
        log.info("stopped at generation %s: %s events learned", generation, f"{events:,}")

    def stop(self) -> None:
        """Stop taking work; the last checkpoint is written, then the server drains. Asked again: leave at once."""
        self.health.ready = False
        if self._stop.is_set():
            self._server.should_exit = True
            return
        self._deadline = time.monotonic() + STOP_SECONDS
        self._stop.set()
        draining = threading.Timer(STOP_SECONDS - DRAIN_SECONDS, self._drain)
        draining.daemon = True
        draining.start()

    def _drain(self) -> None:
        """End the server; requests that are still open get some time, but not more than the stop has left."""
        left = self._deadline - time.monotonic() if self._stop.is_set() else STOP_SECONDS
        self._server.config.timeout_graceful_shutdown = max(1, min(int(left), 5))
        self._server.should_exit = True

    def status(self) -> dict[str, Any]:
        return status_of(self.settings, self.model, self.health)

    def _guarded(self) -> None:
        try:
            warmed(self.model.learner, self.settings.drift, log.info)
            gc.collect()
            gc.freeze()  # of what is loaded by now nothing is garbage, and to look at all of it takes 60 ms
            self._work.run(self._stop)
        except BaseException as error:
            self.failure = error
            if isinstance(error, (Unsaved, Unfinished)):
                log.error("%s", error)  # noqa: TRY400 - the reason is in the line
            elif not isinstance(error, (Protective, BadSettings)):
                log.exception("the %s thread failed", self._role)
        finally:
            self._drain()


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    before = {number: signal.signal(number, lambda *_: stop()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _reading(settings: Settings) -> Options:
    source = settings.source
    return Options(source.client, source.on_lost, source.security, group=f"onepass.{settings.name}")


def _appender(settings: Settings) -> Appender | None:
    """Of the source's own log, for events that come over HTTP; a file has none."""
    source = settings.source
    if source.url.startswith("file:"):
        return None
    return Appender(lambda: open_sink(source.url, Options(source.client, security=source.security)))


def _side_sink(settings: Settings, beside: SideLog | None, field: str, ending: str) -> Callable[[], Sink | None]:
    """How to open a log that the learner writes: the configured one, or one beside the source; a file has none."""
    source = settings.source
    with refused():
        url = beside.url if beside else url_beside(source.url, ending)
        if url is None:
            return nowhere
        check_sink(url, field)
        if log_name(url) == log_name(source.url):
            raise BadSettings(f"{field}.url is the source's own log: what is written there would come again for ever")
    writing = Options(source.client, security=(beside and beside.security) or source.security)

    def sink() -> Sink:
        create_log(url, writing)
        return open_sink(url, writing)

    return sink
