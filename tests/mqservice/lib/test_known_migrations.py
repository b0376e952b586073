"""Which migrations are this version's."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.db.migrations.loader import MigrationLoader

from mqservice.lib.known_migrations import version_problem


def ours() -> set[tuple[str, str]]:
    labels = {app.label for app in apps.get_app_configs() if app.name.startswith("mqservice.")}
    return {key for key in MigrationLoader(None).disk_migrations if key[0] in labels}


def test_all_that_django_finds_are_known() -> None:
    assert len(ours()) > 10
    assert version_problem(ours()) == ""


@pytest.mark.parametrize("name", ["9999_of_tomorrow", "0002_before_they_were_squashed"])
def test_one_of_another_version_is_named_with_the_way_out(name: str) -> None:
    problem = version_problem({*ours(), ("topics", name)})
    assert f"does not know 1 of its migrations, such as topics.{name}. Start" in problem


def test_those_that_a_library_has_given_up_do_not_matter() -> None:
    assert version_problem({*ours(), ("account", "0001_before_it_was_squashed")}) == ""
