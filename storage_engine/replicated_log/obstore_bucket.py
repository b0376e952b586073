"""Buckets of S3, Google, Azure and this process's memory, by ``obstore``.

Requests are not tried again here: what an unknown outcome means, only the log knows.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
    UnknownConfigurationKeyError,
)
from obstore.store import MemoryStore, ObjectStore, from_url

from storage_engine.replicated_log.bucket import BucketRefused, BucketUnreachable, Found, Version
from storage_engine.replicated_log.errors import Misconfigured

if TYPE_CHECKING:
    from obstore import PutMode
    from obstore.store import ClientConfig

_T = TypeVar("_T")
# A request has this long before its outcome counts as unknown: 4 MiB at 1 MiB/s, and something.
REQUEST_TIMEOUT: Final = timedelta(seconds=6)
CONNECT_TIMEOUT: Final = timedelta(seconds=2)
# S3 says so with other codes than 401 and 403.
_REFUSALS: Final = ("NoSuchBucket", "ExpiredToken", "InvalidToken", "ContainerNotFound")
_S3_CODE: Final = re.compile("<Code>([^<]*)</Code>(?:<Message>([^<]*))?")
_REASON_CHARS_MAX: Final = 400


class ObstoreBucket:
    linger_ms = 30

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    @classmethod
    def of_url(cls, url: str, options: Mapping[str, str]) -> ObstoreBucket:
        """Credentials come from the environment, by the usual names, unless ``options`` has them.
        Raises Misconfigured.
        """
        if url.startswith("memory:"):
            return cls(_memory(url))
        config: Any = dict(options)  # Any: its keys come from the user
        client_options: ClientConfig = {
            "timeout": REQUEST_TIMEOUT,
            "connect_timeout": CONNECT_TIMEOUT,
            "allow_http": options.get("endpoint", "").startswith("http:"),
        }
        try:
            store = from_url(
                url, config=config, client_options=client_options, retry_config={"max_retries": 0}
            )
        except (BaseError, ValueError) as exc:
            raise Misconfigured(f"{url}: {_reason(exc)}") from exc
        return cls(store)

    async def get(self, name: str) -> Found | None:
        try:
            result = await _done(obstore.get_async(self._store, name))
            content = bytes(await _done(result.bytes_async()))
        except FileNotFoundError:
            return None
        return Found(content, (result.meta["e_tag"], result.meta["version"]))

    async def exists(self, name: str) -> bool:
        try:
            await _done(obstore.head_async(self._store, name))
        except FileNotFoundError:
            return False
        return True

    async def put(self, name: str, content: bytes, *, version: Version | None) -> bool:
        mode: PutMode = "create"
        if version is not None:
            mode = {}
            if version[0] is not None:
                mode["e_tag"] = version[0]
            if version[1] is not None:
                mode["version"] = version[1]
        put = obstore.put_async(self._store, name, content, mode=mode, use_multipart=False)
        try:
            await _done(put)
        except (AlreadyExistsError, PreconditionError, FileNotFoundError):
            return False
        return True

    async def delete(self, names: Sequence[str]) -> None:
        try:
            await _done(obstore.delete_async(self._store, names))
        except FileNotFoundError:
            return  # another one deleted some of them; the next trim finds what is left

    async def list_before(self, prefix: str, before: str) -> list[str]:
        names: list[str] = []
        chunks = aiter(obstore.list(self._store, prefix))
        while True:
            try:
                chunk = await _done(anext(chunks))
            except StopAsyncIteration:
                return sorted(names)
            found = [meta["path"] for meta in chunk if meta["path"] < before]
            if not found:
                return sorted(names)
            names += found


@functools.cache
def _memory(_url: str) -> ObjectStore:
    """One for each URL: several logs of this process share it."""
    return MemoryStore()


async def _done(request: Awaitable[_T]) -> _T:
    """The outcome of a request, with its errors sorted into what the log tells apart."""
    try:
        return await request
    except (AlreadyExistsError, PreconditionError):
        raise
    except (PermissionDeniedError, UnauthenticatedError, UnknownConfigurationKeyError) as exc:
        raise BucketRefused(_reason(exc)) from exc
    except (BaseError, OSError) as exc:
        reason = str(exc)
        if any(refusal in reason for refusal in _REFUSALS):
            raise BucketRefused(_reason(exc)) from exc
        if isinstance(exc, FileNotFoundError):
            raise
        raise BucketUnreachable(_reason(exc)) from exc


def _reason(exc: Exception) -> str:
    """The part of an error's text that is for people, with what S3 calls it."""
    text = str(exc)
    reason = text.partition("\n")[0].partition(": <?xml")[0]
    if code := _S3_CODE.search(text):
        reason += f": {code[1]} {code[2] or ''}"
    return reason[:_REASON_CHARS_MAX]
