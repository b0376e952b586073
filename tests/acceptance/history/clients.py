"""Producers and consumers that write down all they see; each runs on a thread of its own.

They talk to the service as any client would: over REST and WebSocket, trying again after failures.
"""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
from collections.abc import Iterator
from typing import Any  # decoded JSON

import httpx
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from mqservice.lib.timestamps import parse_rfc3339
from mqservice.supervisor.quickstart import Quickstart
from tests.acceptance.history.events import (
    Accepted,
    AckBegun,
    Acked,
    Delivered,
    GivenBack,
    History,
    Offered,
    Refused,
)

BATCH = 50
MESSAGE_GROUPS = 200  # of one producer; a forgotten message holds up its own for a lease
RECEIVE_MAX = 32
PAUSE_S = 0.02
TIMEOUT_S = 15.0


class Client(threading.Thread):
    """``stop`` ends it soon; what went wrong in it is in ``failure``."""

    def __init__(self, name: str, facts: Quickstart, history: History, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self.facts = facts
        self.history = history
        self.random = random.Random(f"{name} {seed}")
        self.failure: BaseException | None = None
        self._is_stopping = threading.Event()

    def stop(self) -> None:
        self._is_stopping.set()

    @property
    def is_stopping(self) -> bool:
        return self._is_stopping.is_set()

    def run(self) -> None:
        try:
            self.work()
        except BaseException as exc:
            self.failure = exc

    def work(self) -> None:
        raise NotImplementedError

    def api(self) -> httpx.Client:
        """What it speaks REST with."""
        return httpx.Client(headers=self.headers, timeout=TIMEOUT_S)

    def path(self, rest: str) -> str:
        return f"{self.facts.base_url}/v1/ns/{self.facts.namespace}/{rest}"

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.facts.api_key}"}


class Producer(Client):
    """Sends batches over REST, one after the other; what is unknown is not sent again. ``delay_s``:
    after which its messages shall come.
    """

    pause_s = PAUSE_S
    batch_count = BATCH
    delay_s = 0

    def work(self) -> None:
        sequence = 0
        with self.api() as api:
            while not self.is_stopping:
                offers: list[dict[str, str]] = []
                has_groups = self.random.random() < 0.5
                for _ in range(self.batch_count):
                    body = f"{self.name}|{sequence}|{self.random.getrandbits(64):016x}"
                    group = f"{self.name}-{self.random.randrange(MESSAGE_GROUPS)}"
                    more = {"message_group": group} if has_groups else {}
                    self.history.add(
                        Offered(body, self.name, sequence, more.get("message_group"), self.delay_s)
                    )
                    more |= {"delay": f"{self.delay_s}s"} if self.delay_s else {}
                    offers.append({"body": body, **more})
                    sequence += 1
                self._send(api, offers)
                self._is_stopping.wait(self.pause_s)

    def answered(self, outcomes: list[bool | None], asked_at: float) -> None:
        """Told of each request: whether each message is stored, None where nobody knows."""

    def _send(self, api: httpx.Client, offers: list[dict[str, str]]) -> None:
        asked_at = time.monotonic()
        try:
            response = api.post(self.path(f"topics/{self.facts.topic}/messages:batch"), json=offers)
        except httpx.TransportError:
            self.answered([None] * len(offers), asked_at)
            return
        answer: dict[str, Any] = response.json()
        # A request that was refused as a whole has no results.
        results: list[dict[str, Any]] = answer.get("results") or [answer] * len(offers)
        outcomes: list[bool | None] = []
        for offer, result in zip(offers, results, strict=True):
            is_stored = True if result.get("status") == 201 else result.get("stored")
            if is_stored:
                offset = -1 if self.delay_s else result["offset"]  # it gets one when it is due
                self.history.add(Accepted(offer["body"], result["queue"], offset))
            elif is_stored is False:
                self.history.add(Refused(offer["body"]))
            outcomes.append(is_stored)
        self.answered(outcomes, asked_at)


class RestConsumer(Client):
    """Receives, then acks most, gives some back and forgets a few."""

    lease_ms = 2_000

    def work(self) -> None:
        batch = 0
        with self.api() as api:
            while not self.is_stopping:
                batch += 1
                try:
                    messages = self._receive(api, batch)
                    self._settle(api, messages)
                except httpx.TransportError:
                    self._is_stopping.wait(PAUSE_S)

    def _receive(self, api: httpx.Client, batch: int) -> list[dict[str, Any]]:
        response = api.post(
            self.path(f"topics/{self.facts.topic}/groups/{self.facts.group}:receive"),
            json={"max": RECEIVE_MAX, "wait": "1s", "lease_ms": self.lease_ms},
        )
        if response.status_code != 200:
            self._is_stopping.wait(PAUSE_S)
            return []
        messages: list[dict[str, Any]] = response.json()["messages"]
        for message in messages:
            place = message["queue"], message["offset"], message["attempt"]
            # However late the answer is read: what is left of the lease, not how long it was.
            left_ms = parse_rfc3339(message["lease_until"]) - time.time_ns() // 1_000_000
            late_s = max(0, self.lease_ms - left_ms) / 1_000
            delivered = Delivered(message["body"], self.name, batch, *place, left_ms, late_s)
            self.history.add(delivered)
        return messages

    def _settle(self, api: httpx.Client, messages: list[dict[str, Any]]) -> None:
        acks, nacks = {}, []
        for message in messages:
            draw = self.random.random()
            if draw < 0.85:
                acks[message["receipt"]] = message["body"]
                self.history.add(AckBegun(message["body"], self.name))
            elif draw < 0.95:
                nacks.append({"receipt": message["receipt"], "delay": "0s"})
                self.history.add(GivenBack(message["body"], self.name))
        if not (acks or nacks):
            return
        response = api.post(
            self.path(f"groups/{self.facts.group}:settle"), json={"ack": list(acks), "nack": nacks}
        )
        if response.status_code != 200:
            return
        failed = {one["receipt"] for one in response.json()["failed"]}
        for receipt, body in acks.items():
            if receipt not in failed:
                self.history.add(Acked(body, self.name))


class SocketConsumer(Client):
    """Takes pushes and acks them; now and then it vanishes without a word."""

    lease_ms = 2_000
    vanish_share = 0.03  # of the batches that it gets

    def work(self) -> None:
        batches = itertools.count(1)  # not one number twice, however a session ends
        while not self.is_stopping:
            try:
                self._session(batches)
            except (ConnectionClosed, InvalidHandshake, OSError, TimeoutError) as error:
                self.ended(error)
                self._is_stopping.wait(PAUSE_S)

    def ended(self, error: Exception) -> None:
        """Told of each connection that ended, or was not had."""

    def told(self, frame: dict[str, Any]) -> None:
        """Told of each frame that is neither messages nor an answer."""

    def _session(self, batches: Iterator[int]) -> None:
        """Until it stops, vanishes, or the connection ends."""
        with connect(
            self.facts.ws_url,
            additional_headers=self.headers,
            subprotocols=[Subprotocol("mq.v1.json")],
            compression=None,
            open_timeout=TIMEOUT_S,
            close_timeout=0.2,
        ) as socket:
            socket.send(json.dumps({"op": "hello", "id": 1}))
            sub = {"op": "sub", "id": 2, "sid": 1, "topic": self.facts.topic,
                   "group": self.facts.group, "lease_ms": self.lease_ms}  # fmt: skip
            socket.send(json.dumps(sub))
            command_id = 2
            unconfirmed: dict[int, dict[int, str]] = {}
            while not self.is_stopping:
                try:
                    frame: dict[str, Any] = json.loads(socket.recv(timeout=0.5))
                except TimeoutError:
                    continue
                if frame.get("op") == "msgs":
                    held = self._delivered(frame["m"], next(batches))
                    if self.random.random() < self.vanish_share:
                        for body in held.values():
                            self.history.add(GivenBack(body, self.name))
                        return
                    command_id += 1
                    unconfirmed[command_id] = held
                    for body in held.values():
                        self.history.add(AckBegun(body, self.name))
                    ack = {"op": "ack", "id": command_id, "sid": 1, "t": list(held)}
                    socket.send(json.dumps(ack))
                elif frame.get("op") == "ok" and frame["id"] in unconfirmed:
                    self._confirmed(unconfirmed.pop(frame["id"]), frame["r"]["failed"])
                elif not frame:
                    socket.send("{}")  # a ping
                else:
                    self.told(frame)

    def _delivered(self, messages: list[dict[str, Any]], batch: int) -> dict[int, str]:
        for message in messages:
            place = message["q"], message["o"], message["a"]
            self.history.add(Delivered(message["b"], self.name, batch, *place, self.lease_ms))
        return {message["t"]: message["b"] for message in messages}

    def _confirmed(self, bodies: dict[int, str], failed: list[dict[str, Any]]) -> None:
        failed_tags = {one["t"] for one in failed}
        for tag, body in bodies.items():
            if tag not in failed_tags:
                self.history.add(Acked(body, self.name))
