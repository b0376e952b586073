"""The service's Django commands, and the checks that they leave out."""

from __future__ import annotations

import pytest
from django.core.management import call_command, get_commands, load_command_class

from mqservice.lib.commands import ServiceCommand

OWN = {name: app for name, app in get_commands().items() if app.startswith("mqservice.")}


def test_checks_find_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("check", fail_level="INFO")
    assert "System check identified no issues" in capsys.readouterr().out


@pytest.mark.parametrize("name", OWN)
def test_a_command_begins_at_once(name: str) -> None:
    assert isinstance(load_command_class(OWN[name], name), ServiceCommand)
