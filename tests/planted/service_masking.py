"""Bugs by which people see what masking hides from them."""

from __future__ import annotations

from typing import Final

from tests.planted.plant import Plant, Real, Thing, planting

PLANTS: Final[list[Plant]] = []
planted: Final = planting("Masking", PLANTS)

_MASKING: Final = "tests/mqservice/masking"
_PAGES: Final = "tests/mqservice/console/test_masking_pages.py"


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
