"""Bugs by which people see what masking hides from them."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from tests.planted.plant import Plant, Real, Thing, planting

PLANTS: Final[list[Plant]] = []
planted: Final = planting("Masking", PLANTS)

_MASKING: Final = "tests/mqservice/masking"
_PAGES: Final = "tests/mqservice/console/test_masking_pages.py"
_SCHEMAS: Final = "tests/mqservice/console/test_schema_pages.py"


@planted(
    "mqservice.masking.paths:folded",
    f"{_MASKING}/test_json_fields.py::test_what_a_path_leads_to_is_not_in_what_is_shown",
)
def names_of_fields_compared_letter_for_letter(real: Real, name: Thing) -> Thing:
    return name


@planted(
    "mqservice.masking.json_fields:_could_be_json",
    f"{_MASKING}/test_json_fields.py::test_what_a_path_leads_to_is_not_in_what_is_shown",
)
def text_that_is_json_itself_not_hidden(real: Real, value: Thing) -> Thing:
    return False


@planted(
    "mqservice.masking.masks:hide_fields",
    f"{_PAGES}::test_what_is_no_json_is_hidden_as_a_whole",
)
def body_that_is_no_json_shown(real: Real, body: Thing, paths: Thing) -> Thing:
    return real(body, paths) or (body, 0)


@planted(
    "mqservice.masking.masks:TopicMask.reject_hidden_filter",
    f"{_PAGES}::test_a_search_is_no_oracle",
)
def search_tells_what_is_hidden(real: Real, mask: Thing, *, contains: Thing, wanted: Thing) -> None:
    return


@planted(
    "mqservice.console.messages.views:is_hidden",
    f"{_PAGES}::test_pages_and_files_of_a_hidden_body_hold_none_of_it",
)
def hidden_body_downloaded(real: Real, message: Thing) -> Thing:
    return False


@planted(
    "mqservice.masking.masks:Masks.shows_more_in",
    f"{_PAGES}::test_dead_letters_are_not_redriven_to_where_they_would_be_shown",
)
def copy_made_where_no_rule_holds(real: Real, masks: Thing, topic: Thing) -> Thing:
    return False


@planted(
    "mqservice.masking.services:_require_can_see",
    f"{_MASKING}/test_masking_api.py::test_an_admin_cannot_lift_what_only_owners_see",
)
def who_is_masked_may_lift_the_mask(real: Real, principal: Thing, least: Thing) -> None:
    return


@planted(
    "mqservice.console.tail.consumer:TailConsumer._look_up_mask",
    "tests/mqservice/console/test_tail_masking.py::"
    "test_what_is_hidden_from_the_reader_is_not_reported_from_soon_after_the_rule",
)
async def open_tail_never_hears_of_a_rule(real: Real, tail: Thing, namespace: Thing) -> None:
    if not hasattr(tail, "_mask"):
        await real(tail, namespace)


@planted(
    "mqservice.console.shared.bodies:shown_body",
    f"{_SCHEMAS}::test_where_fields_are_hidden_no_schema_gives_them_another_name",
)
def schema_decodes_where_fields_are_hidden(real: Real, message: Thing, schema: Thing) -> Thing:
    if message.get("masked") == "fields":
        message = {**message, "masked": ""}
    return real(message, schema)


@planted(
    "mqservice.console.shared.bodies:preview",
    f"{_SCHEMAS}::test_a_line_of_a_list_is_decoded_by_the_schema_of_its_topic",
)
def line_of_a_masked_body_decoded_by_its_schema(real: Real, message: Thing, schema: Thing) -> Thing:
    return real({**message, "masked": ""}, schema)


@planted(
    "mqservice.console.tail.rows:row_of",
    f"{_SCHEMAS}::test_a_live_tail_shows_bodies_decoded_where_no_field_is_hidden",
)
def tail_decodes_before_masking_decides(
    real: Real, record: Thing, mask: Thing, schema: Thing
) -> Thing:
    text = schema.line_of(record.body) if schema is not None else None
    row = real(record, mask, None)
    return replace(row, text=text) if text else row
