"""Refuses a database that another version has made, before anything in it changes.

Called by ``migrate`` and by ``prepare``, which skips ``migrate`` when nothing is missing.
"""

from __future__ import annotations

from django.apps import apps
from django.core.management.base import CommandError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader

from mqservice import __version__


def refuse_unknown_migrations(connection: BaseDatabaseWrapper) -> None:
    """Raises CommandError when a migration of ours was applied that this version does not have.

    Only our own count: a library may give up the names of its old ones.
    """
    loader = MigrationLoader(connection)
    ours = {app.label for app in apps.get_app_configs() if app.name.startswith("mqservice.")}
    applied = {key for key in loader.applied_migrations if key[0] in ours}
    unknown = sorted(applied - set(loader.disk_migrations))
    if unknown:
        raise CommandError(
            "Another version of mqservice has made this database: this version, "
            f"{__version__}, does not know {len(unknown)} of its migrations, such as "
            f"{'.'.join(unknown[0])}. Start the version that made it, restore a backup made by "
            "this one, or start with an empty database."
        )
