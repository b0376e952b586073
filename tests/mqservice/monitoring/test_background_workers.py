"""Workers are asked again when nobody answers at once: they miss broadcasts that come in a row."""

from __future__ import annotations

from typing import Any

import pytest

from mqservice.celery import QUEUES, app
from mqservice.monitoring import background
from mqservice.monitoring.background import find_workers, queues_of

STATS = {"worker@a": {"pid": 7, "pool": {"max-concurrency": 2}, "total": {"x": 3}, "uptime": 5}}


class Inspector:
    """Answers as workers do: every second question is missed."""

    def __init__(self) -> None:
        self.asked = 0

    def _heard(self, answer: dict[str, Any]) -> dict[str, Any] | None:  # Any: as Celery answers
        self.asked += 1
        return answer if self.asked % 2 else None

    def stats(self) -> dict[str, Any] | None:  # Any: as above
        return self._heard(STATS)

    def active_queues(self) -> dict[str, Any] | None:  # Any: as above
        return self._heard({"worker@a": [{"name": "tasks"}]})


def test_a_missed_question_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    inspector = Inspector()
    monkeypatch.setattr(app.control, "inspect", lambda timeout: inspector)
    workers = find_workers()
    assert workers is not None
    assert [(each.name, each.queues) for each in workers] == [("worker@a", ["tasks"])]
    assert inspector.asked == 3


def test_who_reads_a_queue_is_unknown_while_a_worker_has_not_said() -> None:
    workers = [background._worker("worker@a", STATS["worker@a"], [])]
    assert [each.is_known for each in queues_of(workers, None)] == [False] * len(QUEUES)
    workers = [background._worker("worker@a", STATS["worker@a"], [{"name": "tasks"}])]
    told = {each.name: (each.workers, each.is_known) for each in queues_of(workers, None)}
    assert told["tasks"] == (["worker@a"], True)
    assert told["control"] == ([], True)
