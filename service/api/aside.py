"""Long requests are answered in a thread, one after the other, so that short ones need not stand behind them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

SHORT = 16_384
"""Bytes of a body that is worked on at once: a batch of them takes a millisecond, and no text much more."""
ASIDE = ThreadPoolExecutor(1, "aside")


async def worked(body: bytes, work: Callable[[bytes], T]) -> T:
    """What `work` makes of a body."""
    if len(body) <= SHORT:
        return work(body)
    return await asyncio.get_running_loop().run_in_executor(ASIDE, work, body)
