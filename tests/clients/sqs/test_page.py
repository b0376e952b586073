"""Every program of docs/sqs-clients.md, as it stands there but for the names of queues."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import boto3
import pytest

from tests.clients.sqs.programs import JAVA, java_path, node_program
from tests.clients.typescript.package import run
from tests.docs.markdown import DOCS, Page
from tests.pythons import installed_pythons, python_with
from tests.services import Service, wait_until
from tests.storage_engine.faults.machine import need_sqs_program

pytestmark = [pytest.mark.torture, pytest.mark.acceptance, pytest.mark.timeout(600)]
PAGE: Final = Page(DOCS / "sqs-clients.md")
PACKAGES: Final = (
    "django==5.2.*", "django-dramatiq==0.15.0", "dramatiq-sqs==0.4.4", "celery[sqs]==5.7.0",
    "django-celery-results==2.6.0",
)  # fmt: skip
# A project as it is before it follows the page.
SETTINGS: Final = """
import os
SECRET_KEY = "only for tests"
USE_TZ = True
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["django.contrib.contenttypes", "shop"]
DRAMATIQ_AUTODISCOVER_MODULES = ["actors"]
"""
# Odd numbers fail at first.
PROJECT: Final = {
    "__init__": "from shop.celery import app\n",
    "celery": """
from celery import Celery
app = Celery("shop")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
""",
    "tasks": """
from celery import shared_task

@shared_task(bind=True, max_retries=3)
def bill(self, number):
    if number % 2 and not self.request.retries:
        raise self.retry(countdown=1)
    return f"done {number} after {self.request.retries}"
""",
    "actors": """
import dramatiq
from dramatiq.middleware import CurrentMessage

@dramatiq.actor(min_backoff=2_000, max_backoff=4_000)
def ship(number):
    retries = CurrentMessage.get_current_message().options.get("retries", 0)
    if number % 2 and not retries:
        raise ValueError("not yet")
""",
}
# The arguments of a worker, and what sends tasks and says what has become of them.
WAYS: Final = {
    "celery": (
        ("celery", "-A", "shop", "worker", "-c", "1"),
        """
from shop.tasks import bill
for task in [bill.delay(2), bill.delay(3)]:
    print(task.get(timeout=60))
""",
    ),
    "dramatiq": (
        ("django", "rundramatiq", "--processes", "1", "--threads", "2"),
        """
import time
from django_dramatiq.models import Task
from shop.actors import ship
for number in (2, 3):
    sent = ship.send(number)
    for _ in range(600):
        task = Task.tasks.filter(pk=sent.message_id).first()
        if task is not None and task.status == "done":
            break
        time.sleep(0.1)
    print(task.status, number, "after", task.message.options.get("retries", 0))
""",
    ),
}
WAIT_S: Final = 90
Sqs = Any  # Any: a client of boto3, whose methods are made at run time


def fence(language: str, holding: str) -> str:
    """The one program of a language that has this text in it."""
    (found,) = [
        each.text for each in PAGE.fences if each.language == language and holding in each.text
    ]
    return found


def own(program: str, prefix: str) -> str:
    """With queues of its own: a topic ``orders`` is there already."""
    return program.replace('"orders', f'"{prefix}-orders')


@pytest.fixture
def sqs(aws_environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Sqs:
    for name, value in aws_environ.items():
        monkeypatch.setenv(name, value)
    return boto3.client("sqs")


def make_queues(prefix: str) -> None:
    """As the page makes them."""
    exec(own(fence("python", "import boto3"), prefix), {})


def url_of(sqs: Sqs, name: str) -> str:
    return str(sqs.get_queue_url(QueueName=name)["QueueUrl"])


def send_orders(sqs: Sqs, name: str) -> None:
    """Three orders, and one that no program can read."""
    for at, body in enumerate(('{"number": 5}', "unreadable", '{"number": 6}', '{"number": 7}')):
        more = {}
        if name.endswith(".fifo"):
            more = {"MessageGroupId": "customer-1", "MessageDeduplicationId": str(at)}
        sqs.send_message(QueueUrl=url_of(sqs, name), MessageBody=body, **more)


def dead_letters(sqs: Sqs, name: str) -> list[str]:
    """Bodies, once there is one."""
    received = sqs.receive_message(
        QueueUrl=url_of(sqs, name), WaitTimeSeconds=20, MaxNumberOfMessages=10
    )
    return [each["Body"] for each in received.get("Messages", ())]


@contextmanager
def running(
    command: Sequence[str], folder: Path, environ: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """What it writes is in ``output`` of the folder. It must end well when it is told to."""
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **environ}, stdout=output, stderr=output
        )
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        code = process.wait(WAIT_S)
    finally:
        process.kill()
        process.wait()
    assert code in (0, 128 + signal.SIGTERM), (folder / "output").read_text()


def wait_for_lines(folder: Path, wanted: list[str]) -> list[str]:
    """Those of the output that begin as the first of the wanted ones does, once all are there."""
    verb = tuple({line.partition(" ")[0] for line in wanted})

    def said() -> list[str]:
        lines = (folder / "output").read_text().splitlines()
        return [line for line in lines if line.startswith(verb)]

    wait_until(lambda: len(said()) >= len(wanted), WAIT_S, f"{wanted} is in {folder / 'output'}")
    return said()


def test_node_consumes_and_leaves_what_it_cannot_read(
    sqs: Sqs, aws_environ: dict[str, str], tmp_path: Path
) -> None:
    need_sqs_program("javascript")
    make_queues("node")
    program = node_program(tmp_path, own(fence("js", "sqs-consumer"), "node"))
    send_orders(sqs, "node-orders")
    with running(["node", str(program)], tmp_path, aws_environ):
        wanted = ["billed 5", "billed 6", "billed 7"]
        assert sorted(wait_for_lines(tmp_path, wanted)) == wanted
        assert dead_letters(sqs, "node-orders-dead") == ["unreadable"]


def test_spring_listens_to_both_kinds_of_queues(
    sqs: Sqs, aws_environ: dict[str, str], tmp_path: Path
) -> None:
    need_sqs_program("java")
    make_queues("spring")
    (tmp_path / "application.properties").write_text(fence("properties", "spring.cloud.aws"))
    (tmp_path / "Shop.java").write_text(own(fence("java", "SqsListener"), "spring"))
    run(["javac", "-d", ".", "-cp", java_path(), "Shop.java"], cwd=tmp_path)
    for ending in ("", ".fifo"):
        send_orders(sqs, f"spring-orders{ending}")
    command = ["java", *JAVA, "-cp", f".:{java_path()}", "shop.Shop"]
    environ = {**aws_environ, "SPRING_CLOUD_AWS_SQS_LISTENER_POLL_TIMEOUT": "1s"}  # ends sooner
    with running(command, tmp_path, environ):
        wanted = [f"billed {n}" for n in (1, 5, 6, 7)] + [f"shipped {n}" for n in (2, 5, 6, 7)]
        said = wait_for_lines(tmp_path, wanted)
        assert sorted(said) == wanted
        assert [line for line in said if line in wanted[5:]] == wanted[5:], "in order of the group"
        for ending in ("", ".fifo"):
            assert dead_letters(sqs, f"spring-orders-dead{ending}") == ["unreadable"]


@pytest.mark.parametrize(
    "way", ["celery", "dramatiq"]
)  # Celery without Django is in tests/mqservice/sqs
def test_django_runs_tasks_by_packages_of_others(
    way: str, service: Service, aws_environ: dict[str, str], tmp_path: Path
) -> None:
    python = str(python_with(installed_pythons()[0], *PACKAGES))
    address = service.facts.base_url.removeprefix("http://")
    page = "\n".join(fence("python", each) for each in ("CELERY_BROKER_URL", "DRAMATIQ_BROKER"))
    page = page.replace("127.0.0.1:8000", address).replace('"shop', '"page')
    (tmp_path / "shop").mkdir()
    for name, text in (PROJECT | {"settings": SETTINGS + page}).items():
        (tmp_path / "shop" / f"{name}.py").write_text(text)
    environ = {**aws_environ, "DJANGO_SETTINGS_MODULE": "shop.settings"}
    worker, use = WAYS[way]
    run([python, "-m", "django", "migrate", "--verbosity", "0"], cwd=tmp_path, env=environ)
    with running([python, "-m", *worker], tmp_path, environ):
        done = run(
            [python, "-c", f"import django; django.setup()\n{use}"], cwd=tmp_path, env=environ
        )
    assert done.splitlines() == ["done 2 after 0", "done 3 after 1"]
