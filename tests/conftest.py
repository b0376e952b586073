"""Fixtures that every test may use; servers and coroutine tests are in ``tests.plugin``."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from django.db import connection, connections
from django.test import TestCase, TransactionTestCase
from pytest_django import DjangoDbBlocker

from tests.services import Service, started_service

# One line for each request would bury what a failed test has to say.
logging.getLogger("httpx").setLevel(logging.WARNING)

# Locks wait until whoever still writes is done. Of the audit nothing can be deleted.
_REMOVE_ALL_ROWS = """
DO $$
DECLARE
    name text;
    is_filled boolean;
BEGIN
    FOR name IN SELECT format('%I', tablename) FROM pg_tables
        WHERE schemaname = 'public'
        AND tablename NOT IN ('django_migrations', 'django_content_type', 'auth_permission')
    LOOP
        EXECUTE format('LOCK TABLE %s IN EXCLUSIVE MODE', name);
        EXECUTE format('SELECT EXISTS (SELECT FROM %s)', name) INTO is_filled;
        IF NOT is_filled THEN
            CONTINUE;
        ELSIF name = 'accounts_auditentry' THEN
            TRUNCATE accounts_auditentry;
        ELSE
            EXECUTE format('DELETE FROM %s', name);
        END IF;
    END LOOP;
END $$
"""


@pytest.fixture(scope="session")
def one_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One whole service for all acceptance tests that neither stop nor harm it.

    It makes all of its database itself, as a user's first start does. Its sign-in page offers
    single sign-on, too; nobody answers there.
    """
    provider = {
        "MQ_OIDC_ISSUER": "http://127.0.0.1:9",
        "MQ_OIDC_CLIENT_ID": "mq-console",
        "MQ_OIDC_CLIENT_SECRET": "nobody asks for it",
        "MQ_OIDC_NAME": "W" * 40,  # the longest and widest that fits
    }
    data_dir = tmp_path_factory.mktemp("service") / "data"
    with started_service(data_dir, **provider) as running:
        yield running


@pytest.fixture(scope="session")
def service(one_service: Service) -> Service:
    """The same, by the name that folders give to what stands in its place."""
    return one_service


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Tests with transactions of their own leave no row behind. Django would empty each table and
    make its permissions anew, in half a second; the audit refuses even that.
    """
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE accounts_auditentry DISABLE TRIGGER mq_refuse_audit_truncate")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", _remove_all_rows)
        patch.setattr(TestCase, "tearDownClass", classmethod(_keep_connections))
        yield


def _keep_connections(finished: type[TestCase]) -> None:
    """Django would close the connection after each test whose transaction it has rolled back. To
    connect, and to read the catalog again, takes a fifth of the processor of such tests.
    """
    finished._rollback_atomics(finished.cls_atomics)  # type: ignore[attr-defined]  # Django's own
    for each in connections.all(initialized_only=True):
        if each.connection is None or each.errors_occurred:
            each.close()
        else:
            each.connection.execute("DISCARD ALL")  # what a test has set, locked or made for itself
    super(TestCase, finished).tearDownClass()


def _remove_all_rows(finished: TransactionTestCase) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_REMOVE_ALL_ROWS)
