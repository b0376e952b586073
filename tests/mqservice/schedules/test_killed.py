"""Sweeps that are killed, or come at once: each planned time once, none left out."""

from __future__ import annotations

import pytest

from mqservice.schedules.models import Schedule
from mqservice.schedules.sending import sweep
from tests.kill_points import WAIT_S, run_until_killed
from tests.mqservice.delivery.wait_until import wait_until
from tests.mqservice.schedules.conftest import HOUR_MS, Desk
from tests.mqservice.tasks.test_killed import run_together
from tests.sizes import in_torture

pytestmark = pytest.mark.django_db(transaction=True)
MOMENTS = ("stored", *in_torture("ready", "saved"))
COUNT = 30  # more than a chunk


def run_dying_worker(moment: str, now_ms: int, engine_socket: str) -> None:
    run_until_killed("tests.mqservice.schedules.killed_worker", moment, str(now_ms), engine_socket)


@pytest.mark.parametrize("moment", MOMENTS)
def test_what_a_killed_worker_was_sending_is_sent_once(
    desk: Desk, engine: str, moment: str
) -> None:
    # Given more than a chunk that is due, and two workers that die of it
    names = {desk.make(f"s{number}").name for number in range(COUNT)}
    desk.clock.advance(HOUR_MS)
    for _ in range(2):
        run_dying_worker(moment, desk.clock.now_ms(), engine)
    assert (len(desk.stored()) > 0) == (moment != "ready")
    assert not Schedule.objects.exclude(last_message_id="").exists(), "nothing was committed"

    # When others sweep: PostgreSQL learns in its own time that a client is dead
    def is_all_sent() -> bool:
        desk.tick()
        return not Schedule.objects.filter(due_ms__lte=desk.clock.now_ms()).exists()

    wait_until(is_all_sent, WAIT_S)
    # Then each was sent once, and each row knows its message
    records = desk.stored()
    assert sorted(record.properties["mq_schedule"] for record in records) == sorted(names)
    known = set(Schedule.objects.values_list("last_message_id", flat=True))
    assert known == {record.message_id for record in records}


def test_sweeps_at_once_send_each_once(desk: Desk) -> None:
    names = [desk.make(f"s{number:02}").name for number in range(COUNT)]
    desk.clock.advance(HOUR_MS)
    run_together([lambda: sweep(desk.clock, by=desk.charges)] * 4)
    assert sorted(record.properties["mq_schedule"] for record in desk.stored()) == names
    assert not Schedule.objects.exclude(last_error="").exists()
