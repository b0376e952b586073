"""The form of a group's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from mqservice.console.shared.setting_fields import SettingsForm
from mqservice.groups.settings import SETTINGS
from mqservice.lib.settings_table import Settings
from mqservice.protocol.choices import Dispatch


class GroupForm(SettingsForm):
    """``name`` only of a new group."""

    SETTINGS: ClassVar[Settings] = SETTINGS
    POINTERS: ClassVar[Mapping[str, str]] = {"ILLEGAL_GROUP": "name"}

    def document(self) -> dict[str, object]:
        document = super().document()
        if document["dispatch"] != Dispatch.BROADCAST:
            return document
        # What its clients fail to consume is dropped, and nobody shares queues.
        defaults = {each.name: each.shown_default for each in SETTINGS if each.not_in_broadcast}
        return document | defaults
