"""Clients of the history checker on a host of their own, and one that asks the control plane."""

from __future__ import annotations

import httpx

from tests.acceptance.history.clients import Client, Producer, RestConsumer, SocketConsumer
from tests.acceptance.history.control import ControlAsker
from tests.acceptance.partitions.network import Host

# Less than a cut between clients and service lasts, so that some answers are given up.
TIMEOUT_S = 3.0


class OnHost(Client):
    """``host`` is given after it was made."""

    host: Host

    def run(self) -> None:
        self.host.enter()
        super().run()


class _Impatient(OnHost):
    def api(self) -> httpx.Client:
        return httpx.Client(headers=self.headers, timeout=TIMEOUT_S)


class CutProducer(_Impatient, Producer):
    """Small batches: requests meet a cut, messages only cost processor."""

    pause_s = 0.05
    batch_count = 10


class CutRestConsumer(_Impatient, RestConsumer):
    pass


class CutSocketConsumer(_Impatient, SocketConsumer):
    pass


class CutControlAsker(_Impatient, ControlAsker):
    pass
