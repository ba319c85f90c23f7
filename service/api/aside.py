"""Long requests are answered in a thread, one after the other, so that short ones need not stand behind them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request

from service.api.context import Context

T = TypeVar("T")

SHORT = 16_384
"""Bytes of a body that is worked on at once: a batch of them takes a millisecond, and no text much more."""
SHORT_OF_COLUMNS = 262_144
"""The same where every feature is a column: a number takes a fraction of what a word does, and a thread would cost a
batch of 1,000 a third of its speed."""
ASIDE = ThreadPoolExecutor(1, "aside")


async def worked(context: Context, request: Request, body: bytes, work: Callable[[bytes], T]) -> T:
    """What `work` makes of a body; in its turn, and only if the client is still there then."""
    short = SHORT if context.settings.features.bits else SHORT_OF_COLUMNS
    if len(body) <= short and not context.settings.learner.stores_rows():  # those meet every stored row
        return work(body)

    def wanted() -> T:
        if request.scope.get("gone", bool)():  # a test client has no connection
            raise ClientDisconnect
        return work(body)

    return await asyncio.get_running_loop().run_in_executor(ASIDE, wanted)
