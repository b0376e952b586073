"""Rows of runs: one slot, retries, workers that die, nights that were missed."""

from __future__ import annotations

import datetime as dt

from mqservice.accounts.models import Tenant
from mqservice.accounts.services import get_or_create_tenant
from mqservice.celery import app
from mqservice.reports import limits, tasks
from mqservice.reports.due_days import Plan
from mqservice.reports.models import ReportRun, RunState
from mqservice.reports.programs import Failure
from mqservice.reports.runs import claim, create_due_runs, fail, find_due, finish, renew
from mqservice.reports.spark import Outcome, Progress
from mqservice.supervisor.processes import ANALYTICS_QUEUES
from tests.clock import ManualClock
from tests.mqservice.reports.conftest import DATE, DAY, MakeRun

PLAN = Plan(dt.time(2, 30), "UTC")
OUTCOME = Outcome(records={}, incomplete_days={"main": []}, report_rows={"usage_daily": 1})


def make_tenant(clock: ManualClock) -> None:
    """One that was there a month before."""
    tenant = get_or_create_tenant("acme")
    before = dt.datetime.fromtimestamp(clock.now_ms() / 1_000, dt.UTC) - 30 * DAY
    Tenant.objects.filter(pk=tenant.pk).update(created_at=before)


def test_nights_are_made_once_and_missed_ones_are_caught_up_with(
    db: None, clock: ManualClock
) -> None:
    make_tenant(clock)
    (first,) = create_due_runs(PLAN, clock.now_ms())
    assert create_due_runs(PLAN, clock.now_ms()) == []
    clock.advance(3 * 24 * 3_600_000)
    found = [run.from_date for run in create_due_runs(PLAN, clock.now_ms())]
    assert found == [first.from_date + DAY * day for day in (1, 2, 3)]


def test_a_service_that_was_just_set_up_has_no_night_to_catch_up_with(
    db: None, clock: ManualClock
) -> None:
    now = dt.datetime.fromtimestamp(clock.now_ms() / 1_000, dt.UTC)
    tenant = get_or_create_tenant("acme")
    Tenant.objects.filter(pk=tenant.pk).update(created_at=now)
    assert create_due_runs(PLAN, clock.now_ms()) == []
    clock.advance(2 * 24 * 3_600_000)
    assert create_due_runs(PLAN, clock.now_ms())[0].from_date >= now.date()


def test_a_night_of_a_clock_that_was_far_ahead_stops_no_later_ones(
    make_run: MakeRun, clock: ManualClock
) -> None:
    make_tenant(clock)
    make_run(PLAN.last_due(clock.now_ms()) + 300 * DAY)
    assert len(create_due_runs(PLAN, clock.now_ms())) == 1


def test_one_run_has_the_slot_and_the_oldest_night_is_first(
    make_run: MakeRun, clock: ManualClock
) -> None:
    later, first = make_run(DATE + DAY), make_run(DATE)
    assert find_due(clock.now_ms()) == first.public_id
    mine = claim(first.public_id, clock.now_ms())
    assert mine is not None
    assert find_due(clock.now_ms()) is None
    assert claim(later.public_id, clock.now_ms()) is None
    assert claim(first.public_id, clock.now_ms()) is None
    assert finish(mine, OUTCOME, 5)
    assert claim(first.public_id, clock.now_ms()) is None
    assert claim(later.public_id, clock.now_ms()) is not None


def test_what_no_worker_begins_is_asked_for_again(make_run: MakeRun, clock: ManualClock) -> None:
    run = make_run()
    assert find_due(clock.now_ms()) == run.public_id
    assert find_due(clock.now_ms()) is None
    clock.advance(limits.QUEUED_MS)
    assert find_due(clock.now_ms()) == run.public_id


def test_a_run_whose_worker_is_gone_is_begun_again_and_the_old_worker_writes_nothing(
    make_run: MakeRun, clock: ManualClock
) -> None:
    public_id = make_run().public_id
    dead = claim(public_id, clock.now_ms())
    assert dead is not None
    assert renew(dead, clock.now_ms(), Progress("usage_daily", 2, 7))
    clock.advance(limits.CLAIM_MS)
    assert find_due(clock.now_ms()) == public_id
    alive = claim(public_id, clock.now_ms())
    assert alive is not None
    assert not renew(dead, clock.now_ms(), None)
    assert not finish(dead, OUTCOME, 1)
    fail(dead, Failure.KILLED, "", clock.now_ms())
    assert ReportRun.objects.get().state == RunState.RUNNING
    assert finish(alive, OUTCOME, 9)
    assert ReportRun.objects.get().row_count == 9


def test_a_run_that_kills_its_workers_is_given_up(make_run: MakeRun, clock: ManualClock) -> None:
    public_id = make_run().public_id
    for _ in range(limits.ATTEMPTS_MAX):
        assert claim(public_id, clock.now_ms()) is not None
        clock.advance(limits.CLAIM_MS)
    assert claim(public_id, clock.now_ms()) is None
    run = ReportRun.objects.get()
    assert (run.state, run.error_code) == (RunState.FAILED, Failure.KILLED)


def test_a_failure_is_tried_again_later_and_then_given_up(
    make_run: MakeRun, clock: ManualClock
) -> None:
    public_id = make_run().public_id
    pauses = []
    for _ in range(limits.ATTEMPTS_MAX):
        run = claim(public_id, clock.now_ms())
        assert run is not None
        fail(run, Failure.JOB_FAILED, "no room\x00 at all", clock.now_ms())
        run.refresh_from_db()
        pauses.append(run.next_try_ms - clock.now_ms())
        assert claim(public_id, clock.now_ms()) is None
        clock.advance(pauses[-1])
    assert pauses[:2] == [limits.RETRY_MS, limits.RETRY_MS * limits.RETRY_FACTOR]
    given_up = ReportRun.objects.get()
    assert (given_up.state, given_up.error) == (RunState.FAILED, "no room at all")


def test_without_java_a_night_is_not_tried_again(make_run: MakeRun, clock: ManualClock) -> None:
    run = claim(make_run().public_id, clock.now_ms())
    assert run is not None
    fail(run, Failure.NO_SPARK, "there is no java", clock.now_ms())
    run.refresh_from_db()
    assert (run.state, run.error) == (RunState.FAILED, "there is no java")


def test_runs_have_a_queue_of_their_own_and_end_before_they_are_handed_out_again() -> None:
    queue = app.amqp.router.route({}, tasks.make.name)["queue"].name
    assert queue == ANALYTICS_QUEUES
    assert tasks.make.time_limit is not None
    assert tasks.make.time_limit < app.conf.broker_transport_options["visibility_timeout"]
