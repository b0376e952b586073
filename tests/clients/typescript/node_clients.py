"""Producers and consumers written in TypeScript, for the load whose history is judged."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final, Literal

import msgspec

from mqservice.supervisor.quickstart import Quickstart
from tests.acceptance.history import events
from tests.acceptance.history.clients import Client
from tests.acceptance.history.events import History
from tests.clients.typescript.package import environment_for

WORKER: Final = Path(__file__).with_name("worker.mjs")
END_WAIT_S: Final = 60


class NodeClient(Client):
    """A process of Node. It has to end by itself and well once its stdin is closed."""

    role: Literal["produce", "consume"] = "produce"

    def __init__(
        self, name: str, facts: Quickstart, history: History, transport: str = "auto"
    ) -> None:
        super().__init__(name, facts, history, seed=0)
        env = {
            "NAME": name, "ROLE": self.role, "TOPIC": facts.topic, "GROUP": facts.group,
            "TRANSPORT": transport,
        }  # fmt: skip
        self._process = subprocess.Popen(
            ["node", str(WORKER)],
            env={**environment_for(facts), **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def stop(self) -> None:
        super().stop()
        assert self._process.stdin is not None
        self._process.stdin.close()

    def work(self) -> None:
        with self._process as process:
            assert process.stdout is not None
            assert process.stderr is not None
            for line in process.stdout:
                kind, fields = msgspec.json.decode(line)
                self.history.add(getattr(events, kind)(**fields))
            try:
                code = process.wait(END_WAIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            assert code == 0, f"{self.name} ended with {code}: {process.stderr.read()}"


class NodeProducer(NodeClient):
    """Sends batches with idempotency keys, and repeats them until they are accepted."""


class NodeConsumer(NodeClient):
    """Acks most, gives some back."""

    role = "consume"
