"""The asynchronous client behind the synchronous one's methods, so that one test is of both.

test ─ mq.send(…) ─▶ [Blocking] ─ on a loop's thread ─▶ await AsyncClient.send(…)
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, cast

from mqservice_client import AsyncClient, Client

WAIT_S = 60


class Blocking:
    """Calls go to the loop; what is of ``mqservice_client.aio`` comes back wrapped."""

    def __init__(self, inner: object, loop: asyncio.AbstractEventLoop) -> None:
        self._inner = inner
        self._loop = loop

    def __getattr__(self, name: str) -> Any:  # Any: whatever the client has
        value = getattr(self._inner, name)
        return self._call(value) if callable(value) else self._wrap(value)

    def __repr__(self) -> str:
        return repr(self._inner)

    def __enter__(self) -> Blocking:
        self._run(lambda: self._inner.__aenter__())  # type: ignore[attr-defined]  # if it has one
        return self

    def __exit__(self, *reason: object) -> None:
        self._run(lambda: self._inner.__aexit__(*reason))  # type: ignore[attr-defined]

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return self._run(cast("AsyncIterator[Any]", self._inner).__anext__)
        except StopAsyncIteration:
            raise StopIteration from None

    def _call(self, method: Any) -> Any:
        def call(*args: object, **options: object) -> Any:
            return self._run(lambda: method(*args, **options))

        return call

    def _run(self, make: Any) -> Any:
        async def made() -> Any:
            result = make()
            return await result if inspect.isawaitable(result) and not _is_ours(result) else result

        future = asyncio.run_coroutine_threadsafe(made(), self._loop)
        return self._wrap(future.result(WAIT_S))

    def _wrap(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._wrap(each) for each in value]
        return Blocking(value, self._loop) if _is_ours(value) else value


@contextmanager
def blocking(
    base_url: str | None = None, api_key: str | None = None, **options: Any
) -> Iterator[Client]:
    """An asynchronous client to be used like a synchronous one; nothing may be left on its loop."""
    inner = AsyncClient(base_url, api_key, **options)
    loop = asyncio.new_event_loop()
    client = Blocking(inner, loop)
    thread = threading.Thread(target=loop.run_forever, name="blocking", daemon=True)
    thread.start()
    try:
        yield cast("Client", client)
        client.close()
        left = asyncio.run_coroutine_threadsafe(_others(), loop).result(WAIT_S)
        assert left == set(), f"tasks are left: {left}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _others() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks() - {cast("asyncio.Task[Any]", asyncio.current_task())}


def _is_ours(value: object) -> bool:
    return inspect.isasyncgen(value) or type(value).__module__.startswith("mqservice_client.aio.")
