"""Django's tasks on mqservice, with Django 6 and with django-tasks on Django 5.2."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from mqservice_client import Client

from tests.clients.python.conftest import Target
from tests.clients.python.django_shop import VARIANTS, Shop, python_of
from tests.clients.python.proxy import proxy
from tests.ports import held_port
from tests.services import wait_until
from tests.sizes import in_torture
from tests.storage_engine.faults.machine import need_django

pytestmark = pytest.mark.acceptance
STOP_WAIT_S = 30
IDLE_S = 2.0  # a burst that gets nothing for so long looks whether there is anything
WAIT_S = 60
FETCH = """
from mqservice_client.django.compat import task_backends
def fetch(id, backend="default"):
    found = task_backends[backend].get_result(id)
    return {
        "status": found.status, "attempts": found.attempts,
        "value": found.return_value if found.status == "SUCCESSFUL" else None,
        "errors": [error.exception_class_path for error in found.errors],
        "times": [found.enqueued_at, found.started_at, found.finished_at],
    }
"""
_numbers = itertools.count(1)


# What is the same code on both runs on one of them, and in ``make torture`` on the other too.
_FIRST, *_OTHERS = VARIANTS
WITH_EACH_DJANGO = pytest.mark.parametrize("python", VARIANTS, indirect=True, scope="module")
WITH_ONE_DJANGO = pytest.mark.parametrize(
    "python", [_FIRST, *in_torture(*_OTHERS)], indirect=True, scope="module"
)


@pytest.fixture(scope="module")
def python(request: pytest.FixtureRequest) -> Path:
    need_django(request.param)
    return python_of(request.param)


@pytest.fixture(scope="module")
def tables(python: Path, service: Target, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database to which nothing was done but ``migrate``."""
    return new_shop(python, tmp_path_factory.mktemp("tables"), service).database


def new_shop(python: Path, folder: Path, service: Target, tables: Path | None = None) -> Shop:
    return Shop(
        python, folder, f"shop-{os.getpid()}-{next(_numbers)}",
        base_url=service.base_url, api_key=service.api_key, tables=tables,
    )  # fmt: skip


@pytest.fixture
def shop(python: Path, service: Target, tables: Path, tmp_path: Path) -> Iterator[Shop]:
    shop = new_shop(python, tmp_path, service, tables)
    yield shop
    shop.close()


@pytest.fixture
def mq(service: Target) -> Iterator[Client]:
    with Client(service.base_url, service.api_key) as mq:
        yield mq


@WITH_EACH_DJANGO
def test_tasks_run_and_their_results_are_read(shop: Shop) -> None:
    ids = shop.run(
        "from shop.jobs import add, add_later, attempt\n"
        "tasks = [add.enqueue(1, 2), add_later.enqueue(one=3, other=4), attempt.enqueue()]\n"
        "result = [task.id for task in tasks]"
    )

    assert "Stopped after 3 tasks" in shop.burst()

    results = shop.run(f"{FETCH}\nresult = [fetch(id) for id in {ids}]")
    assert [each["value"] for each in results] == [3, 7, 1]
    assert [each["status"] for each in results] == ["SUCCESSFUL"] * 3
    for each in results:
        assert each["attempts"] == 1
        assert each["times"] == sorted(each["times"])


@WITH_ONE_DJANGO
def test_a_task_of_a_transaction_that_is_rolled_back_never_runs(shop: Shop) -> None:
    unsent = shop.run(
        """
from django.db import transaction
from mqservice_client.django.models import TaskRecord
from shop.jobs import remember
try:
    with transaction.atomic():
        remember.enqueue("rolled back")
        raise KeyError
except KeyError:
    pass
with transaction.atomic():
    remember.enqueue("committed")
    result = TaskRecord.objects.filter(sent_at__isnull=True).count()
result = [result, TaskRecord.objects.filter(sent_at__isnull=False).count()]
"""
    )

    shop.burst()

    assert unsent == [1, 1]
    assert shop.notes == ["committed"]


@WITH_ONE_DJANGO
def test_messages_are_published_when_the_transaction_commits(shop: Shop, mq: Client) -> None:
    mq.topics.create(shop.prefix, queues=1)

    shop.run(
        f"""
from django.db import transaction
from mqservice_client.django import publish_on_commit
try:
    with transaction.atomic():
        publish_on_commit({shop.prefix!r}, "never")
        raise KeyError
except KeyError:
    pass
order = {{"order": 1}}
with transaction.atomic():
    publish_on_commit({shop.prefix!r}, order, tag="created")
    order["order"] = 2
publish_on_commit({shop.prefix!r}, "at once")
"""
    )

    bodies = [(each.tag, each.content) for each in mq.messages.iterate(shop.prefix)]
    assert sorted(bodies, key=str) == [("created", b'{"order":1}'), (None, b"at once")]


@pytest.mark.torture
@WITH_ONE_DJANGO
def test_urgent_tasks_overtake_others(shop: Shop, mq: Client) -> None:
    gate = shop.folder / "gate"
    worker = shop.start_worker("--concurrency", "1", "--queue-name", "default")
    shop.run(f"from shop.jobs import hold; hold.enqueue('first', {str(gate)!r})")
    wait_until(lambda: shop.notes == ["first begins"], WAIT_S, "a task runs")
    shop.run(
        "from shop.jobs import remember\n"
        "for name, priority in (('low', -5), ('normal', 0), ('high', 7)):\n"
        "    remember.using(priority=priority).enqueue(name)"
    )
    wait_until(
        lambda: mq.groups.lag(shop.prefix).inflight == 4, WAIT_S, "the worker has all of them"
    )

    gate.touch()

    wait_until(lambda: len(shop.notes) == 5, WAIT_S, "all tasks have run")
    assert shop.notes[2:] == ["high", "normal", "low"]
    assert worker.poll() is None


@pytest.mark.torture
@WITH_ONE_DJANGO
def test_a_task_runs_after_its_time_and_on_its_queue(shop: Shop) -> None:
    ids = shop.run(
        """
from datetime import timedelta
from django.utils import timezone
from shop.jobs import mail, remember
when = timezone.now() + timedelta(seconds=3)
result = [remember.using(run_after=when).enqueue("later").id, mail.enqueue("me").id, when]
"""
    )
    shop.burst("--queue-name", "mail")
    assert shop.notes == ["mail me"]
    assert shop.status(ids[0]) == "READY"

    worker = shop.start_worker("--queue-name", "default")
    wait_until(lambda: shop.notes == ["mail me", "later"], 30, "the other task has run")
    worker.send_signal(signal.SIGTERM)

    assert worker.wait(STOP_WAIT_S) == 0
    _, started_at, _ = shop.run(f"{FETCH}\nresult = fetch({ids[0]!r})['times']")
    assert started_at >= ids[2]


@WITH_EACH_DJANGO
def test_what_a_task_raises_is_its_result(shop: Shop) -> None:
    task_id = shop.run("from shop.jobs import fail; result = fail.enqueue('no stock').id")

    shop.burst()

    found = shop.run(
        f"""
from mqservice_client.django.compat import task_backends
found = task_backends["default"].get_result({task_id!r})
[error] = found.errors
result = [found.status, error.exception_class is ValueError, "no stock" in error.traceback]
"""
    )
    assert found == ["FAILED", True, True]


@pytest.mark.torture
@WITH_EACH_DJANGO
def test_a_task_is_run_again_where_the_settings_say_so(shop: Shop) -> None:
    ids = shop.run(
        "from shop.jobs import fail_until\n"
        "result = [fail_until.enqueue(3).id, fail_until.enqueue(9).id]"
    )

    shop.burst("--backend", "stubborn")

    good, bad = shop.run(f"{FETCH}\nresult = [fetch(id, 'stubborn') for id in {ids}]")
    assert (good["status"], good["value"], good["attempts"]) == ("SUCCESSFUL", 3, 3)
    assert good["errors"] == ["builtins.ValueError"] * 2
    assert (bad["status"], bad["attempts"]) == ("FAILED", 3)
    assert len(shop.notes) == 6


@pytest.mark.torture
@WITH_ONE_DJANGO
def test_a_worker_killed_half_way_loses_nothing(shop: Shop) -> None:
    gate = shop.folder / "gate"
    worker = shop.start_worker()
    task_id = shop.run(f"from shop.jobs import hold; result = hold.enqueue('x', {str(gate)!r}).id")
    wait_until(lambda: shop.notes == ["x begins"], WAIT_S, "the task runs")

    worker.kill()
    worker.wait(STOP_WAIT_S)
    other = shop.start_worker()
    wait_until(lambda: shop.notes == ["x begins"] * 2, 90, "the task runs again")
    gate.touch()

    wait_until(lambda: shop.status(task_id) == "SUCCESSFUL", WAIT_S, "the task has ended")
    other.send_signal(signal.SIGTERM)
    assert other.wait(STOP_WAIT_S) == 0
    found = shop.run(f"{FETCH}\nresult = fetch({task_id!r})")
    assert (found["attempts"], found["value"], found["errors"]) == (2, "x", [])
    assert shop.notes == ["x begins", "x begins", "x ends"]


@pytest.mark.torture
@WITH_ONE_DJANGO
def test_a_worker_told_to_stop_ends_what_it_runs_and_gives_the_rest_back(
    shop: Shop, mq: Client
) -> None:
    gate = shop.folder / "gate"
    worker = shop.start_worker("--concurrency", "1", "--queue-name", "default")
    shop.run(
        "from shop.jobs import hold, remember\n"
        f"hold.enqueue('long', {str(gate)!r}); remember.using(priority=-1).enqueue('waits')"
    )
    wait_until(lambda: shop.notes == ["long begins"], WAIT_S, "a task runs")
    wait_until(lambda: mq.groups.lag(shop.prefix).inflight == 2, WAIT_S, "the worker has both")

    worker.send_signal(signal.SIGTERM)
    gate.touch()

    assert worker.wait(STOP_WAIT_S) == 0
    assert shop.notes == ["long begins", "long ends"]
    topic = f"{shop.prefix}-default-low"
    with mq.subscribe(topic, shop.prefix) as subscription:
        message = subscription.get("20s")
        assert message is not None
        assert message.attempt == 1
    shop.burst()
    assert shop.notes[2:] == ["waits"]


@pytest.mark.torture
@WITH_ONE_DJANGO
def test_enqueuing_needs_no_service_and_a_worker_sends_later(shop: Shop) -> None:
    with held_port() as port:
        task_id = shop.run(
            "from shop.jobs import remember; result = remember.enqueue('at last').id",
            MQ_BASE_URL=f"http://127.0.0.1:{port}",
            SHOP_SEND_TIMEOUT="2s",
        )
    assert shop.status(task_id) == "READY"

    shop.burst()  # does not end before it could be sent, ten seconds after it was enqueued

    assert shop.notes == ["at last"]
    assert shop.status(task_id) == "SUCCESSFUL"


@pytest.mark.torture
@WITH_ONE_DJANGO
def test_a_burst_waits_for_a_service_that_is_slow(shop: Shop, service: Target) -> None:
    shop.run("from shop.jobs import remember; remember.enqueue('came late')")

    def slowly(content: bytes) -> bytes:
        if b"pgrade: websocket" in content:
            threading.Event().wait(2 * IDLE_S)
        return content

    with proxy(service.base_url) as way:
        way.change = slowly
        shop.env["MQ_BASE_URL"] = way.url
        shop.burst()

    assert shop.notes == ["came late"]


@WITH_ONE_DJANGO
def test_a_burst_looks_twice_when_something_is_in_flight(shop: Shop) -> None:
    """It may be on its way to here, or be another worker's."""
    looks = shop.run("""
import asyncio
from types import SimpleNamespace
from shop.jobs import remember
from mqservice_client.django.worker import Worker

class Groups:
    async def lag(self, group, topic):
        return SimpleNamespace(ready=ready, inflight=inflight)

async def look_at():
    global ready, inflight
    worker = Worker(remember.get_backend(), ["default"], concurrency=1, drain_timeout_s=1)
    worker._may_be_unsent = False
    found = []
    for ready, inflight in [(0, 1), (1, 0), (0, 1), (0, 0)]:
        found.append(await worker._is_nothing_ready(SimpleNamespace(groups=Groups())))
    return found

result = asyncio.run(look_at())
""")
    assert looks == [False, False, True, True]


@pytest.mark.torture
@WITH_ONE_DJANGO
def test_a_task_whose_message_is_there_twice_runs_once(shop: Shop) -> None:
    shop.run(
        """
from mqservice_client import Client
from shop.jobs import remember
first = remember.enqueue("once")
with Client() as mq:
    topic = f"{__import__('os').environ['SHOP_PREFIX']}-default"
    mq.topics.create(topic)
    for _ in range(3):
        mq.send(topic, {"id": first.id})
    mq.send(topic, {"id": "of another database"})
    mq.send(topic, "no task")
"""
    )

    shop.burst("--concurrency", "2")

    assert shop.notes == ["once"]


@pytest.mark.torture
@WITH_ONE_DJANGO
def test_a_task_that_is_gone_or_that_ends_its_workers_is_given_up(shop: Shop) -> None:
    ids = shop.run(
        """
from mqservice_client.django.models import TaskRecord
from shop.jobs import remember
result = [remember.enqueue("gone").id, remember.enqueue("deadly").id]
TaskRecord.objects.filter(pk=result[0]).update(task_path="shop.jobs.no_such")
TaskRecord.objects.filter(pk=result[1]).update(worker_ids=["w"] * 10)
"""
    )

    shop.burst()

    assert shop.notes == []
    errors = shop.run(
        "from mqservice_client.django.models import TaskRecord\n"
        f"found = [TaskRecord.objects.get(pk=id) for id in {ids}]\n"
        "result = [[each.status, each.errors[0]['exception_class_path']] for each in found]"
    )
    assert errors == [
        ["FAILED", "builtins.ImportError"],
        ["FAILED", "mqservice_client.django.execution.WorkerEnded"],
    ]


@pytest.mark.torture
@WITH_ONE_DJANGO
def test_old_results_are_deleted(shop: Shop) -> None:
    shop.run("from shop.jobs import remember; remember.enqueue('old'); remember.enqueue('new')")
    shop.burst()
    shop.run(
        """
from datetime import timedelta
from django.utils import timezone
from mqservice_client.django.models import TaskRecord
long_ago = timezone.now() - timedelta(days=15)
TaskRecord.objects.filter(args=["old"]).update(finished_at=long_ago)
"""
    )

    shop.burst()

    left = "from mqservice_client.django.models import TaskRecord\n"
    assert shop.run(left + "result = [each.args for each in TaskRecord.objects.all()]") == [["new"]]


@WITH_EACH_DJANGO
def test_what_makes_no_sense_is_refused(shop: Shop) -> None:
    refused = shop.run(
        """
from datetime import timedelta
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.utils import timezone
from mqservice_client.django import TaskBackend
from mqservice_client.django.compat import InvalidTask
from shop.jobs import remember
result = []
for kind, call in (
    (InvalidTask, lambda: remember.using(run_after=timezone.now() + timedelta(days=400))),
    (InvalidTask, lambda: remember.using(queue_name="unknown")),
    (TypeError, lambda: remember.enqueue(object())),
    (ImproperlyConfigured, lambda: TaskBackend("x", {"OPTIONS": {"colour": "red"}})),
    (ImproperlyConfigured, lambda: TaskBackend("x", {"OPTIONS": {"send_timeout": 5}})),
    (ImproperlyConfigured, lambda: TaskBackend("x", {"OPTIONS": {"max_attempts": 0}})),
    (CommandError, lambda: call_command("mqservice_worker", queue_names=["unknown"])),
    (CommandError, lambda: call_command("mqservice_worker", drain_timeout="30")),
    (CommandError, lambda: call_command("mqservice_worker", concurrency=0)),
):
    try:
        call()
    except kind as exc:
        result.append(str(exc))
    else:
        result.append(f"{kind} was not raised")
result += [fault.id for fault in TaskBackend("x", {"QUEUES": ["a b"]}).check()]
"""
    )

    assert not [each for each in refused if "was not raised" in each]
    assert "365 days" in refused[0]
    assert "colour" in refused[3]
    assert refused[-1] == "mqservice_client.E002"
    assert "no issues" in shop.manage("check")
