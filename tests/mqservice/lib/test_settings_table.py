"""What an answer may hold follows from its setting."""

from __future__ import annotations

from mqservice.lib.settings_table import Name, Text


def test_a_field_is_nullable_in_answers_only_where_its_empty_value_is_shown_as_null() -> None:
    assert Text(name="description", null="").types() == {"description": str}
    assert Text(name="description").types() == {"description": str}
    assert Name(name="topic", null="").types() == {"topic": str | None}
    assert Name(name="topic").types() == {"topic": str}
