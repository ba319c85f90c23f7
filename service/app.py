"""Build and run the process of one role: HTTP in the main thread, the work in another."""

import gc
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Literal, Self

from service.api import Context, make_admin, make_app
from service.api.log_appender import Appender
from service.config.settings import OutputLog, Settings
from service.consumer.checkpointer import CheckpointPolicy
from service.consumer.dead_letters import SideOutputs, no_sink
from service.consumer.replica import Replica
from service.consumer.watchdog import Watchdog
from service.consumer.wiring import Parts, build_model, build_worker
from service.consumer.worker import Reading, Worker
from service.errors import (
    ProtectiveError,
    SettingsError,
    UnfinishedError,
    UnsavedError,
    as_settings_error,
)
from service.features.decoder import Decoder
from service.model.scheduling import RequestGate
from service.monitoring import Monitoring
from service.monitoring.health import Health
from service.monitoring.metrics import Metrics, Registry
from service.monitoring.status import status_of
from service.server.in_flight import InFlightLimit
from service.server.server import (
    GRACE_SECONDS,
    Server,
    is_loopback,
    make_server,
    open_keys,
    open_socket,
)
from service.sources import check_sink, check_source, create_log, open_sink, open_source
from service.sources.base import Options, Sink
from service.sources.urls import log_name, url_beside
from service.storage import RedisStore
from service.storage.file_backup import FileBackup
from service.warmup import warm_up

log = logging.getLogger("onepass")

Role = Literal["run", "learn", "serve"]

STOP_SECONDS = 9.0
"""Seconds within which the process stops."""
DRAIN_SECONDS = 2.0
"""Seconds of `STOP_SECONDS` for open requests, even if the last checkpoint is not written by then.
"""
SWITCH_SECONDS = 0.0001
"""Seconds that the learner may hold the interpreter while a prediction waits. The default of 5 ms
shows in the tail of the latencies.
"""


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
        self._gate = RequestGate()
        self._learning = build_model(settings)
        self.model = self._learning.model
        self._metrics = Metrics(
            Registry(), settings.name, kafka=settings.source.url.startswith("kafka:")
        )
        self._store = RedisStore(settings.store, settings.name, settings.checkpoint)
        self._monitoring = Monitoring(self._metrics, self.health)
        replica = Replica(self.model, self._store, self._monitoring)
        self._work: Worker | Replica = replica
        if role != "serve":
            self._work = self._make_worker(replica, until_end=until_end, start_fresh=start_fresh)
        self._server = self._make_server(insecure=insecure)

    def _make_server(self, *, insecure: bool) -> Server:
        """Bind the socket, then build the application and the server around it."""
        settings, api = self.settings, self.settings.api
        keys = open_keys(api)
        self._metrics.watch(keys)
        self._socket = open_socket(api.host, api.port, open_to_others=insecure or keys is not None)
        self.port = self._socket.getsockname()[1]
        if keys is None and not is_loopback(self._socket):
            text = "--insecure: every client that reaches %s:%s can use the API without a key"
            log.warning(text, api.host, self.port)
        decoder = Decoder(settings.features, settings.label, settings.limits)
        self._appender = _make_appender(settings)
        context = Context(settings, decoder, self.model, self._metrics, self.health, self._appender)
        app = make_app(context, predicts=self._role != "learn", keys=keys)
        self._admin = AdminServer(context) if api.admin else None
        in_flight = InFlightLimit(
            api.max_in_flight, self._metrics.refused, self._gate.arrived, self._gate.answered
        )
        return make_server(app, api, in_flight)

    def _make_worker(self, replica: Replica, *, until_end: bool, start_fresh: bool) -> Worker:
        settings, policy = self.settings, self.settings.checkpoint
        source, options = settings.source, _source_options(settings)
        with as_settings_error():
            check_source(source.url, options)
        parts = Parts(
            log_name=log_name(source.url),
            reading=Reading(
                lambda: open_source(source.url, source.start, options),
                settings.max_poll_records,
                until_end,
            ),
            store=self._store,
            policy=CheckpointPolicy(
                policy.interval_seconds,
                policy.interval_events,
                policy.max_uncheckpointed_seconds,
                policy.max_uncheckpointed_events,
            ),
            outputs=_make_side_outputs(settings),
            gate=self._gate,
            backup=(
                FileBackup(settings.store.backup, settings.name) if settings.store.backup else None
            ),
            replica=replica,
            start_fresh=start_fresh,
        )
        return build_worker(self._learning, parts, self._monitoring)

    def run(self) -> int:
        """Run until SIGTERM, Ctrl-C or the end of the work. Return the exit status."""
        sys.setswitchinterval(SWITCH_SECONDS)
        thread = threading.Thread(target=self._run_work, name=self._role, daemon=True)
        with _handle_signals(self.stop):
            thread.start()
            if isinstance(self._work, Worker):
                watchdog = Watchdog(self.health, self._work.renew_source)
                threading.Thread(
                    target=watchdog.watch, args=[self._stop], name="watchdog", daemon=True
                ).start()
            api = self.settings.api
            scheme = "https" if api.tls else "http"
            log.info(
                "%s of %s on %s://%s:%s",
                self._role,
                self.settings.name,
                scheme,
                api.host,
                self.port,
            )
            with self._admin or nullcontext():
                self._server.run(sockets=[self._socket])
            self.stop()
            thread.join(max(0.1, self._deadline - time.monotonic()))
            if self._appender is not None:
                self._appender.close()
        if thread.is_alive():
            log.error("stopped without a last checkpoint: the %s thread does not end", self._role)
        if isinstance(self.failure, (ProtectiveError, SettingsError)):
            raise self.failure
        if self.failure or thread.is_alive():
            return 1
        self._log_end()
        return 0

    def _log_end(self) -> None:
        events, generation, _ = self.model.version()
        log.info("stopped at generation %s: %s events learned", generation, f"{events:,}")

    def stop(self) -> None:
        """Stop taking work, write the last checkpoint, then drain the server. A second call ends
        the server at once.
        """
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
        """End the server. Open requests get some time, but not more than is left for the stop."""
        left = self._deadline - time.monotonic() if self._stop.is_set() else STOP_SECONDS
        self._server.config.timeout_graceful_shutdown = max(1, min(int(left), 5))
        self._server.should_exit = True

    def status(self) -> dict[str, Any]:
        return status_of(self.settings, self.model, self.health)

    def _run_work(self) -> None:
        try:
            warm_up(self.model.learner, self.settings.drift, log.info)
            gc.collect()
            # Nothing that is loaded by now is garbage, and a collection over all of it takes 60 ms.
            gc.freeze()
            self._work.run(self._stop)
        except BaseException as error:
            self.failure = error
            if isinstance(error, (UnsavedError, UnfinishedError)):
                log.error("%s", error)  # noqa: TRY400 - the reason is in the line
            elif isinstance(error, MemoryError):
                text = (
                    "not enough memory: the %s thread ends; the checkpoints in Redis are complete"
                )
                log.error(text, self._role)  # noqa: TRY400 - the reason is in the line
            elif not isinstance(error, (ProtectiveError, SettingsError)):
                log.exception("the %s thread failed", self._role)
        finally:
            self._drain()


class AdminServer:
    """The administration server, which runs inside its `with` block. It has its own thread, event
    loop, port and `KeyFile`.
    """

    def __init__(self, context: Context) -> None:
        api = context.settings.api
        keys = open_keys(api)
        if api.admin is None or keys is None or "admin" not in keys.scopes:
            raise SettingsError(
                "api.admin needs api.keys_file with a key for it: onepass keys new --scope admin"
            )
        self._host = api.admin.host
        self._socket = open_socket(api.admin.host, api.admin.port, "api.admin", open_to_others=True)
        self.port = self._socket.getsockname()[1]
        in_flight = InFlightLimit(api.max_in_flight, context.metrics.refused)
        self._server = make_server(make_admin(context, keys), api, in_flight)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="admin", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        log.info("administration on port %s of %s", self.port, self._host)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(GRACE_SECONDS + 1)


@contextmanager
def _handle_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at SIGTERM and Ctrl-C while the block runs."""
    before = {
        number: signal.signal(number, lambda *_: stop())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _make_side_outputs(settings: Settings) -> SideOutputs:
    return SideOutputs(
        settings.name,
        _side_sink(settings, settings.dead_letters, "dead_letters", ".dead"),
        _side_sink(settings, settings.drift.alarms, "drift.alarms", ".alarms"),
        wait_for_alarms=settings.drift.alarms is not None,
    )


def _source_options(settings: Settings) -> Options:
    source = settings.source
    return Options(
        source.client, source.on_data_loss, source.security, group=f"onepass.{settings.name}"
    )


def _make_appender(settings: Settings) -> Appender | None:
    """Make the appender of events that come over HTTP to the source's log; None for a file."""
    source = settings.source
    if source.url.startswith("file:"):
        return None
    return Appender(lambda: open_sink(source.url, Options(source.client, security=source.security)))


def _side_sink(
    settings: Settings, output: OutputLog | None, field: str, suffix: str
) -> Callable[[], Sink | None]:
    """Return a function that opens a log for side outputs: the configured one, else one beside the
    source. A file source has none beside it.
    """
    source = settings.source
    with as_settings_error():
        url = output.url if output else url_beside(source.url, suffix)
        if url is None:
            return no_sink
        check_sink(url, field)
        if log_name(url) == log_name(source.url):
            raise SettingsError(
                f"{field}.url is the source's own log: the learner would read what it writes there;"
                " set another log"
            )
    options = Options(source.client, security=(output and output.security) or source.security)

    def open_output() -> Sink:
        create_log(url, options)
        return open_sink(url, options)

    return open_output
