"""The form of a topic's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from mqservice.console.shared.setting_fields import SettingsForm
from mqservice.lib.settings_table import Settings
from mqservice.topics.settings import SETTINGS


class TopicForm(SettingsForm):
    """``name`` only of a new topic."""

    SETTINGS: ClassVar[Settings] = SETTINGS
    POINTERS: ClassVar[Mapping[str, str]] = {"ILLEGAL_TOPIC": "name"}
