"""Fixtures that every test may use; servers and coroutine tests are in ``tests.plugin``."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker

from tests.services import Service, running_service

# One line for each request would bury what a failed test has to say.
logging.getLogger("httpx").setLevel(logging.WARNING)


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One whole service for all acceptance tests that neither stop nor harm it."""
    with running_service(tmp_path_factory.mktemp("service") / "data") as running:
        yield running


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> None:
    """Tests with transactions of their own are tidied up by TRUNCATE, which the audit refuses."""
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE accounts_auditentry DISABLE TRIGGER mq_refuse_audit_truncate")
