"""The clients of this process: one for each service and key, made when it is first needed.

    settings.MQSERVICE, else MQ_BASE_URL and MQ_API_KEY ─▶ [client_of] ─▶ Client

After a fork the child has none, so that a server may load the application before it forks.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from django.conf import settings

from ..network import Network
from ..sync.client import Client


class ConnectionOptions:
    """Arguments of ``Client``: those given here, else those of ``settings.MQSERVICE``."""

    def __init__(self, given: dict[str, Any] | None = None) -> None:  # Any: settings
        options = {**getattr(settings, "MQSERVICE", {}), **(given or {})}
        self.base_url: str | None = options.get("base_url")
        self.api_key: str | None = options.get("api_key")
        self.namespace: str | None = options.get("namespace")
        self.network: Network | None = options.get("network")

    @property
    def identity(self) -> tuple[object, ...]:
        return (self.base_url, self.api_key, self.namespace, id(self.network))


def client_of(options: ConnectionOptions) -> Client:
    """The client of this process for a service. Raises UsageError when there is no key."""
    with _lock:
        client = _clients.get(options.identity)
        if client is None:
            client = _clients[options.identity] = Client(
                options.base_url,
                options.api_key,
                namespace=options.namespace,
                client_name=f"django-{os.getpid()}",
                network=options.network,
            )
        return client


_clients: dict[tuple[object, ...], Client] = {}
_lock = threading.Lock()


def _forget() -> None:
    global _lock
    _clients.clear()
    _lock = threading.Lock()  # another thread may have held it


os.register_at_fork(after_in_child=_forget)
