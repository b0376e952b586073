"""Bugs at the edges: what comes in, what is written to logs and audit, where webhooks lead."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

import msgspec
from allauth.account.internal.flows.login import get_authentication_records
from allauth.socialaccount.models import SocialAccount

from tests.planted.plant import Plant, Real, Thing, planting

PLANTS: Final[list[Plant]] = []
planted: Final = planting("Edges, logs and audit", PLANTS)

_TESTS: Final = "tests/mqservice"
_SINGLE_SIGN_ON: Final = f"{_TESTS}/people/test_single_sign_on.py"


@planted(
    "mqservice.delivery.origins:Origins.check",
    f"{_TESTS}/delivery/test_origins.py::test_another_origin_is_refused",
)
def origin_by_substring(real: Real, origins: Thing, headers: Thing) -> None:
    given = [value for name, value in headers if name == b"origin"]
    if not any(allowed in value for allowed in origins._allowed for value in given):
        real(origins, headers)


@planted(
    "mqservice.delivery.http:check_body",
    f"{_TESTS}/delivery/test_produce_errors.py::test_content_encoding_is_415",
)
def encoded_body_accepted(real: Real, request: Thing, bytes_max: Thing, body: bytes = b"") -> None:
    request.headers.pop(b"content-encoding", None)
    real(request, bytes_max, body)


@planted(
    "mqservice.delivery.http:_read_parts",
    f"{_TESTS}/delivery/test_produce_errors.py::test_a_stream_without_a_length_is_refused_while_it_comes",
)
async def only_a_declared_length_is_limited(
    real: Real, request: Thing, first: Thing, bytes_max: Thing
) -> Thing:
    return await real(request, first, 1 << 40)


@planted(
    "mqservice.body_guard:BodyGuard.receive",
    f"{_TESTS}/test_hostile_http.py::test_a_body_for_django_is_refused_by_its_length_or_while_it_comes",
)
async def body_for_django_without_limit(real: Real, guard: Thing) -> Thing:
    return await guard._receive()


@planted(
    "django.middleware.csrf:CsrfViewMiddleware.process_view",
    f"{_TESTS}/test_safe_headers.py::test_every_form_of_the_console_needs_its_token",
    f"{_TESTS}/people/test_pages.py::test_form_without_its_token_is_refused",
)
def form_of_the_console_without_its_token(
    real: Real, middleware: Thing, request: Thing, callback: Thing, callback_args: Thing,
    callback_kwargs: Thing,
) -> Thing:  # fmt: skip
    if "/topics" in request.path:
        return None
    return real(middleware, request, callback, callback_args, callback_kwargs)


@planted(
    "mqservice.accounts.key_failures:KeyFailures.check",
    f"{_TESTS}/accounts/test_key_failures.py::test_control_plane_answers_429_with_when_to_come_again",
)
def keys_may_be_guessed_forever(real: Real, failures: Thing, address: Thing) -> None:
    return


@planted(
    "mqservice.lib.throttle:Throttle.count",
    f"{_TESTS}/people/test_login.py::test_sixth_try_within_minutes_is_not_even_checked",
    f"{_TESTS}/accounts/test_key_failures.py::test_throttle_lets_so_many_through_in_each_window",
)
def tries_never_counted(real: Real, throttle: Thing, key: Thing) -> int:
    return 1


@planted(
    "mqservice.lib.json_logs:JsonFormatter.format",
    f"{_TESTS}/lib/test_json_logs.py::test_api_key_in_a_text_is_cut_to_its_public_id",
)
def api_key_in_a_log_line(real: Real, formatter: Thing, record: Thing) -> str:
    line = msgspec.json.decode(real(formatter, record))
    line["message"] = record.getMessage()
    return msgspec.json.encode(line).decode()


@planted(
    "mqservice.lib.json_logs:JsonFormatter.format",
    f"{_TESTS}/lib/test_json_logs.py::test_line_breaks_and_control_characters_stay_within_the_line",
)
def line_break_of_a_stranger_in_the_log(real: Real, formatter: Thing, record: Thing) -> Thing:
    return real(formatter, record).replace("\\n", "\n")


@planted(
    "mqservice.engine_rows:record",
    f"{_TESTS}/access/test_audited.py::test_each_change_has_a_row_that_says_who_what_and_in_which_request",
)
def deleted_topic_not_audited(
    real: Real, principal: Thing, namespace: Thing, action: Thing, target: Thing,
    details: Thing = None, before: Thing = None, after: Thing = None, outcome: Thing = "done",
) -> None:  # fmt: skip
    if action != "topic.delete":
        real(principal, namespace, action, target, details, before=before, after=after)


@planted(
    "mqservice.console.messages.exports:csv_cell",
    f"{_TESTS}/console/test_exports.py::test_each_text_of_a_tenant_is_a_safe_cell",
)
def formula_in_an_exported_cell(real: Real, value: Thing) -> Thing:
    return value


@planted(
    "mqservice.alerts.addresses:check_address",
    f"{_TESTS}/alerts/test_webhook.py::test_this_host_is_refused_without_a_connection_unless_allowed",
)
def webhook_may_lead_inside(real: Real, address: Thing, target: Thing, allowed: Thing) -> None:
    return


@planted(
    "mqservice.alerts.addresses:find_address",
    f"{_TESTS}/alerts/test_addresses.py::test_one_inner_address_among_public_ones_is_a_trap",
)
def only_the_first_address_of_a_webhook_judged(
    real: Real, target: Thing, allowed: Thing, resolve: Thing
) -> Thing:
    return real(target, allowed, lambda host, port: resolve(host, port)[:1])


@planted(
    "mqservice.alerts.addresses:find_address",
    f"{_TESTS}/alerts/test_addresses.py::test_a_name_is_resolved_once_and_what_was_judged_is_what_is_used",
)
def webhook_resolves_its_name_again(
    real: Real, target: Thing, allowed: Thing, resolve: Thing
) -> Thing:
    real(target, allowed, resolve)
    return ip_address(resolve(target.host, target.port)[0])


@planted(
    "mqservice.definitions.importing:_restore",
    f"{_TESTS}/definitions/test_importing.py"
    "::test_what_the_engine_refuses_in_the_middle_takes_all_of_it_back",
)
def import_left_half_done_in_the_engine(real: Real, namespace: Thing, steps: Thing) -> bool:
    return True


@planted(
    "mqservice.definitions.importing:_require_scopes",
    f"{_TESTS}/definitions/test_importing.py::test_a_key_of_some_names_imports_those_and_no_others",
)
def import_asks_no_scope_of_each_name(real: Real, document: Thing, by: Thing) -> None:
    return


@planted(
    "mqservice.definitions.importing:_no_room",
    f"{_TESTS}/definitions/test_importing.py::test_quotas_are_asked_of_all_that_is_new_together",
)
def import_asks_quotas_of_one_at_a_time(
    real: Real, namespace: Thing, rows: Thing, steps: Thing
) -> Thing:
    return real(namespace, rows, steps[:1])


@planted(
    "mqservice.console.definitions.views:import_definitions",
    f"{_TESTS}/console/test_definitions_pages.py"
    "::test_settings_that_moved_on_are_shown_again_before_anything_is_done",
)
def import_differs_from_its_preview(
    real: Real, namespace: Thing, document: Thing, by: Thing, digest: Thing = None
) -> Thing:
    return real(namespace, document, by=by)


@planted(
    "mqservice.people.openid:was_asked_anew",
    f"{_SINGLE_SIGN_ON}::test_provider_that_does_not_say_that_it_asked_anew_confirms_nothing",
)
def old_session_at_the_provider_confirms(real: Real, login: Thing) -> Thing:
    return True


@planted(
    "mqservice.people.confirmation:must_sign_on_again",
    f"{_SINGLE_SIGN_ON}::test_who_has_no_other_proof_signs_on_again_and_goes_on",
    f"{_SINGLE_SIGN_ON}::test_what_was_posted_is_done_after_confirming_but_for_a_password",
)
def account_without_a_password_confirms_nothing(real: Real, request: Thing) -> Thing:
    return False


@planted(
    "mqservice.people.confirmation:has_signed_on_again",
    f"{_SINGLE_SIGN_ON}::test_confirmation_is_over_with_its_time",
)
def confirmation_lasts_for_the_whole_session(real: Real, request: Thing) -> Thing:
    records = get_authentication_records(request, request.user)
    return any(each.get("reauthenticated") for each in records)


@planted(
    "mqservice.people.confirmation:can_only_sign_on_again",
    f"{_SINGLE_SIGN_ON}::test_second_factor_confirms_in_place_of_signing_on_again",
)
def provider_confirms_in_place_of_a_second_factor(real: Real, user: Thing) -> Thing:
    return SocialAccount.objects.filter(user=user).exists()
