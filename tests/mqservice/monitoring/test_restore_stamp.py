"""Who brings the tables to a version is about to use them: no restore may take them as its own."""

from __future__ import annotations

import pytest
from django.core.management import call_command
from django.db import connection

from mqservice.lib.restore_stamp import STAMP_TABLE


@pytest.mark.django_db
def test_migrate_takes_the_stamp_of_a_restore_away() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {STAMP_TABLE} (backup text)")
        call_command("migrate", "--no-input", verbosity=0)
        cursor.execute("SELECT to_regclass(%s)", [STAMP_TABLE])
        assert cursor.fetchone() == (None,)
