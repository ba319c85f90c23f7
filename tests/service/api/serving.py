"""Serve an ASGI app on a real port, in a thread of the test's process."""

import socket
import threading
from contextlib import contextmanager

import uvicorn

from tests.waiting import wait_for


@contextmanager
def serve(app, port=0, **options):
    """Serve the app; yield its `HOST:PORT`. On exit the server has stopped and the port is free
    again.
    """
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    server = uvicorn.Server(
        uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1, **options)
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        wait_for(lambda: server.started, "the server")
        yield f"127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
