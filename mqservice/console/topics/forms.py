"""The form of a topic's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

from django import forms
from django.conf import settings

from mqservice.console.shared.setting_fields import SettingsForm
from mqservice.lib.settings_table import Settings
from mqservice.protocol.choices import Durability
from mqservice.topics.settings import DURABILITY, SETTINGS


class TopicForm(SettingsForm):
    """``name`` only of a new topic."""

    SETTINGS: ClassVar[Settings] = SETTINGS
    POINTERS: ClassVar[Mapping[str, str]] = {"ILLEGAL_TOPIC": "name"}

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # Any: as Django takes them
        """``replicated`` is offered where there is a replicated log, or the topic has it."""
        super().__init__(*args, **kwargs)
        field = self.fields[DURABILITY.name]
        assert isinstance(field, forms.ChoiceField)
        field.initial = DURABILITY.stored_default
        chosen = self.get_initial_for_field(field, DURABILITY.name)
        if not settings.MQ_REPLICATED_LOG and chosen != Durability.REPLICATED:
            texts = cast("list[tuple[str, str]]", field.choices)
            field.choices = [each for each in texts if each[0] != Durability.REPLICATED]
