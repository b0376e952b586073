"""Words of the API on pages: none is shown to a Chinese reader as the API writes it."""

from __future__ import annotations

import enum

import pytest
from django.utils import translation

from mqservice.accounts.models import Role
from mqservice.alerts.models import Channel, Delivery
from mqservice.console.templatetags.words import word
from mqservice.protocol.choices import Dispatch, Durability, StartFrom
from mqservice.topics.settings import MessageType

SAME_IN_CHINESE = {"webhook": "Webhook"}


@pytest.mark.parametrize(
    "words", [Role, Channel, Delivery, Dispatch, StartFrom, Durability, MessageType]
)
def test_each_word_of_a_setting_or_state_is_read_in_the_readers_language(
    words: type[enum.StrEnum],
) -> None:
    with translation.override("zh-hans"):
        shown = {each.value: word(each) for each in words}
    untranslated = {name for name, text in shown.items() if text.isascii()}
    assert untranslated <= set(SAME_IN_CHINESE)
    assert all(word(each).isascii() for each in words)


def test_a_word_that_nobody_knows_stays_as_it_is() -> None:
    assert word("unheard_of") == "unheard_of"


def test_label_of_ordered_groups_is_of_their_order_and_no_time() -> None:
    with translation.override("zh-hans"):
        assert translation.gettext("Ordered") == "保持顺序"
