"""What a fault is fired at: a running service, the load on it, and how to tell that all is well."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Final

import httpx

from mqservice.supervisor.quickstart import Quickstart
from tests.acceptance.history.control import ControlAsker
from tests.acceptance.history.events import History
from tests.acceptance.history.heartbeats import have_beaten_since
from tests.acceptance.history.load import Load
from tests.services import Service

READY_S_MAX: Final = 120  # a killed engine reads its log, workers take seconds to start


@dataclass(frozen=True, slots=True)
class Site:
    """``facts`` name topic and group of the load, its processes are those of its start. ``draw`` is
    the run's, so that a seed names what is done. ``is_thorough``: workers and beat, who note only
    now and then that they work, are waited for after each fault and not just at the end.
    """

    service: Service
    database_url: str
    facts: Quickstart
    load: Load
    asker: ControlAsker
    draw: random.Random
    is_thorough: bool

    @property
    def history(self) -> History:
        return self.load.run.history

    def must_flow(self, what: str, anomaly: str) -> None:
        """Messages do, to each consumer, from now on."""
        since = time.monotonic()
        self.load.must(f"{what}, and messages flow", anomaly, lambda: self.load.flows_since(since))

    def must_heal(self, what: str) -> None:
        """Messages flow, the control plane answers, and the service has nothing to complain of."""
        healed, healed_epoch_s = time.monotonic(), time.time()
        self.must_flow(what, "not-healed")
        self.load.must(
            f"{what}, and the control plane answers as before", "not-healed",
            lambda: self.asker.was_answered_since(healed, is_good=True),
        )  # fmt: skip
        self.load.must(
            f"{what}, and the service is ready and whole", "not-healed", self._is_whole,
            s_max=READY_S_MAX,
        )  # fmt: skip

        if self.is_thorough:
            self.must_beat(what, healed_epoch_s)

    def must_beat(self, what: str, since_epoch_s: float) -> None:
        """Workers, beat and the engine's tick do their work since then."""
        self.load.must(
            f"{what}, and workers and beat do their work", "not-healed",
            lambda: have_beaten_since(self.database_url, since_epoch_s),
            s_max=READY_S_MAX,
        )  # fmt: skip

    def _is_whole(self) -> bool:
        try:
            answer = httpx.get(f"{self.service.facts.own_url}/readyz", timeout=60)
        except httpx.TransportError:
            return False
        return answer.status_code == 200 and answer.json()["degraded"] == []
