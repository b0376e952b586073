"""Bugs by which one tenant, member or key gets at what is somebody else's."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import jwt
from allauth.account.auth_backends import AuthenticationBackend
from allauth.account.forms import SignupForm

from mqservice.accounts.models import AuditEntry, Namespace, Role, Tenant
from mqservice.accounts.scopes import Kind
from mqservice.topics.models import Topic
from mqservice.topics.routes import TopicRoutes
from tests.planted.plant import Plant, Real, Thing, planting

PLANTS: Final[list[Plant]] = []
planted: Final = planting("Tenants and keys", PLANTS)

_TESTS: Final = "tests/mqservice"


@planted(
    "mqservice.caches:RouteCache.load_topic",
    f"{_TESTS}/test_caches.py::test_foreign_topic_cannot_be_told_from_an_absent_one",
)
async def cache_key_without_tenant(
    real: Real, cache: Thing, principal: Thing, ns: Thing, name: Thing
) -> Thing:
    for (_, namespace, known), entry in cache._topics._entries.items():
        if (namespace, known) == (principal.namespace_named(ns) or ns, name):
            return entry.value
    return await real(cache, principal, ns, name)


@planted(
    "mqservice.accounts.access:Principal.namespace_named",
    f"{_TESTS}/accounts/test_key_verification.py::test_key_bound_to_a_namespace_means_only_that_one",
)
def namespace_of_the_path_believed(real: Real, principal: Thing, ns: Thing) -> Thing:
    return real(principal, ns) or ns


@planted(
    "mqservice.accounts.access:Principal.require",
    f"{_TESTS}/delivery/test_key_changes.py::test_a_pattern_is_kept_on_every_path_of_messages",
)
def scope_not_asked_for_groups(
    real: Real, principal: Thing, scope: Thing, kind: Thing = None, name: Thing = ""
) -> None:
    if kind is not Kind.GROUP:
        real(principal, scope, kind, name)


@planted(
    "mqservice.accounts.access:_valid_until",
    f"{_TESTS}/accounts/test_key_verification.py::test_expired_key_is_refused",
)
def expiry_of_a_key_ignored(real: Real, row: Thing, is_present: Thing) -> None:
    return None


@planted(
    "mqservice.accounts.access:KeyWatch.changed",
    f"{_TESTS}/delivery/test_key_changes.py::test_a_revoked_key_ends_its_long_polls_with_401",
)
def revocation_not_notified_to_those_who_wait(real: Real, watch: Thing, key_id: Thing) -> None:
    return


@planted(
    "mqservice.accounts.access:AccessKeyCache.load",
    f"{_TESTS}/accounts/test_access_keys.py::test_an_id_that_was_not_made_here_costs_no_query",
)
async def any_id_of_an_access_key_looked_up(
    real: Real, cache: Thing, authorization: Thing
) -> Thing:
    return await cache._look_up(authorization)


@planted(
    "mqservice.sqs.signature:Signatures._check_date",
    f"{_TESTS}/sqs/test_signature.py::test_a_clock_that_differs_by_more_is_refused",
)
def signature_of_any_day_accepted(
    real: Real, signatures: Thing, credential: Thing, stamp: Thing, *, expires_ms: Thing = None
) -> None:
    return


@planted(
    "mqservice.sqs.replays:SeenSignatures.is_late",
    f"{_TESTS}/sqs/test_signature.py::test_the_same_signature_again_is_accepted_for_ten_seconds",
)
def signature_good_for_its_whole_window(
    real: Real, seen: Thing, signature: Thing, now_ms: Thing
) -> bool:
    return False


@planted(
    "mqservice.delivery.context:count_failure",
    f"{_TESTS}/sqs/test_attacks.py"
    "::test_after_many_bad_signatures_an_address_waits_and_good_keys_do_not",
)
async def wrong_credentials_not_counted(real: Real, context: Thing, scope: Thing) -> None:
    return


@planted(
    "mqservice.lib.lookup_cache:LookupCache.drop",
    f"{_TESTS}/lib/test_lookup_cache.py::test_answer_from_before_a_drop_is_not_kept",
)
def answer_from_before_a_change_kept(real: Real, cache: Thing, key: Thing) -> None:
    cache._entries.pop(key, None)
    cache._absent_until_ms.pop(key, None)


@planted(
    "mqservice.accounts.key_services:are_covered",
    f"{_TESTS}/accounts/test_key_api.py::test_nobody_makes_a_key_that_may_do_more",
)
def key_makes_a_stronger_key(real: Real, wanted: Thing, own: Thing) -> bool:
    return True


@planted(
    "mqservice.accounts.member_services:_require_another_owner",
    f"{_TESTS}/accounts/test_people_api.py::test_the_last_owner_stays",
)
def last_owner_can_be_removed(real: Real, tenant: Thing) -> None:
    assert isinstance(tenant, Tenant)


@planted(
    "mqservice.accounts.tickets:Tickets._take",
    f"{_TESTS}/accounts/test_tickets.py::test_ticket_of_a_key_opens_one_socket_once",
)
async def ticket_opens_two_sockets(real: Real, tickets: Thing, name: Thing) -> Thing:
    kept = await real(tickets, name)
    again: dict[str, Thing] = tickets.__dict__.setdefault("_again", {})
    return again.setdefault(name, kept)


@planted(
    "mqservice.delivery.tokens.cursors:_bound",
    f"{_TESTS}/delivery/test_browse_errors.py::test_cursors_fit_only_the_query_they_come_from",
)
def cursor_of_another_query_accepted(real: Real, topic: Thing, question: Thing) -> Thing:
    return real(topic, b"")


@planted(
    "mqservice.delivery.tokens.cursors:_bound",
    f"{_TESTS}/delivery/test_cursors.py::test_topic_question_secret_and_purpose_are_part_of_it",
)
def cursor_of_another_tenants_topic_accepted(real: Real, topic: Thing, question: Thing) -> Thing:
    return real("", question)


@planted(
    "mqservice.usage.queries:_claim",
    f"{_TESTS}/usage/test_usage_api.py::test_a_cursor_of_another_question_or_tenant_is_refused",
)
def cursor_of_usage_without_tenant(real: Real, principal: Thing, question: Thing) -> bytes:
    return repr(question).encode()


@planted(
    "mqservice.delivery.tokens.receipts:claim",
    f"{_TESTS}/delivery/test_receive_settle.py::test_forged_and_foreign_receipts_are_invalid",
)
def receipt_not_bound_to_its_group(real: Real, group: Thing) -> Thing:
    return real("")


@planted(
    "mqservice.topics.api:topics_of",
    f"{_TESTS}/topics/test_topic_api.py::test_list_comes_in_pages_by_name",
    f"{_TESTS}/topics/test_topic_api.py::test_foreign_namespace_and_topic_look_like_absent_ones",
)
def list_of_topics_of_all_tenants(
    real: Real, namespace: Thing, after: Thing = "", contains: Thing = "", limit: Thing = 1_000
) -> Thing:
    rows = Topic.objects.filter(name__gt=after, name__icontains=contains)
    return list(rows.select_related("namespace").order_by("name")[:limit])


@planted(
    "mqservice.accounts.audit_search:_matching",
    f"{_TESTS}/accounts/test_audit_api.py::test_who_is_bound_to_a_namespace_sees_its_entries_only",
)
def audit_of_the_whole_tenant_shown_to_a_bound_key(
    real: Real, principal: Thing, question: Thing
) -> Thing:
    return AuditEntry.objects.filter(tenant_id=principal.tenant_id)


@planted(
    "mqservice.idempotency.middleware:_respond_once",
    f"{_TESTS}/idempotency/test_posts.py::test_keys_are_the_tenants_own",
)
def request_key_without_tenant(
    real: Real, principal: Thing, key: Thing, request: Thing, answer: Thing
) -> Thing:
    tenant_id = Tenant.objects.order_by("pk")[0].pk
    return real(
        replace(principal, tenant_id=tenant_id, key_id="anybody", user=None), key, request, answer
    )


@planted(
    "mqservice.console.groups.offset_reset:find_preview",
    f"{_TESTS}/console/test_reset_page.py::test_nothing_is_applied_of_what_was_not_previewed_by_the_same_person_lately",
)
def preview_of_another_person_applied(
    real: Real, token: Thing, user_id: Thing, group: Thing
) -> Thing:
    found = real(token, user_id, group)
    for other in range(1, 1_000) if found is None else ():
        found = found or real(token, other, group)
    return found


@planted(
    "mqservice.delivery.tokens.resume_tokens:_claim",
    f"{_TESTS}/delivery/resume/test_resume_errors.py::test_a_token_of_someone_else_gives_a_new_session",
)
def session_resumed_by_another_key(
    real: Real, session_id: Thing, principal: Thing, namespace: Thing
) -> Thing:
    return real(session_id, replace(principal, key_id=""), namespace)


@planted(
    "mqservice.lib.signing:Signer.is_valid",
    f"{_TESTS}/delivery/test_delays.py::test_a_handle_is_worth_nothing_elsewhere_or_changed",
)
def signature_of_handles_and_cursors_not_compared(
    real: Real, signer: Thing, payload: Thing, tag: Thing
) -> bool:
    return True


@planted(
    "mqservice.delivery.socket.session:Session.key_rechecked",
    f"{_TESTS}/delivery/test_key_changes.py::test_a_key_that_may_no_longer_consume_here_is_closed_with_4403",
)
def narrowed_key_keeps_reading(real: Real, session: Thing, principal: Thing) -> None:
    if principal is None:
        real(session, principal)


@planted(
    "mqservice.lib.lookup_cache:LookupCache._stale",
    f"{_TESTS}/lib/test_lookup_cache.py::test_stale_value_serves_while_the_source_is_away_up_to_its_limit",
)
def stale_answers_used_for_ever(real: Real, cache: Thing, key: Thing) -> Thing:
    entry = cache._entries.get(key)
    return real(cache, key) if entry is None else entry.value


@planted(
    "mqservice.accounts.session_access:session_principal",
    f"{_TESTS}/console/test_keys_pages.py::test_viewer_and_developer_see_no_action_and_are_refused_each",
)
def every_member_is_an_owner(real: Real, member: Thing, user: Thing, namespace: Thing) -> Thing:
    return replace(real(member, user, namespace), role=Role.OWNER)


@planted(
    "mqservice.console.shared.frame:namespaces_of",
    f"{_TESTS}/console/test_pages.py::test_stranger_cannot_tell_a_foreign_namespace_from_an_absent_one",
    f"{_TESTS}/console/test_pages.py::test_other_tenants_names_are_on_no_page",
)
def page_lists_namespaces_of_all_tenants(real: Real, user: Thing) -> Thing:
    return list(Namespace.objects.select_related("tenant").order_by("name"))


@planted(
    "mqservice.accounts.access:Principal.permits",
    f"{_TESTS}/accounts/test_people_api.py::test_a_key_of_one_namespace_cannot_manage_people",
)
def namespace_key_manages_people(real: Real, principal: Thing, permission: Thing) -> Thing:
    return real(replace(principal, namespace=None), permission)


@planted(
    "mqservice.idempotency.middleware:_respond_once",
    f"{_TESTS}/idempotency/test_posts.py::test_another_key_with_the_same_rights_asks_for_itself",
)
def answer_under_an_idempotency_key_given_to_another_key(
    real: Real, principal: Thing, key: Thing, request: Thing, answer: Thing
) -> Thing:
    return real(replace(principal, key_id="anybody", user=None), key, request, answer)


@planted(
    "mqservice.idempotency.middleware:_digest_of_rights",
    f"{_TESTS}/idempotency/test_posts.py::test_a_key_whose_rights_were_cut_gets_no_answer_from_before",
)
def answer_given_again_whatever_the_rights(real: Real, principal: Thing) -> bytes:
    return bytes(32)


@planted(
    "mqservice.people.forms:SignUpForm.try_save",
    f"{_TESTS}/people/test_same_work.py::test_sign_up_of_a_known_address_costs_what_a_new_one_does",
)
def known_address_signs_up_in_no_time(real: Real, form: Thing, request: Thing) -> Thing:
    return SignupForm.try_save(form, request)


@planted(
    "mqservice.people.password_backend:PasswordBackend._authenticate",
    f"{_TESTS}/people/test_same_work.py::test_a_wrong_password_costs_the_same_whoever_is_here",
)
def known_address_costs_two_hashes(
    real: Real, backend: Thing, request: Thing, **credentials: Thing
) -> Thing:
    return AuthenticationBackend._authenticate(backend, request, **credentials)


@planted(
    "mqservice.people.openid:OpenIdProvider.extract_email_addresses",
    f"{_TESTS}/people/test_single_sign_on.py"
    "::test_address_that_the_provider_has_not_verified_opens_nothing",
)
def unverified_address_opens_an_account(real: Real, provider: Thing, data: Thing) -> Thing:
    addresses = real(provider, data)
    for address in addresses:
        address.verified = True
    return addresses


@planted(
    "mqservice.people.openid:OpenIdProvider.extract_uid",
    f"{_TESTS}/people/test_single_sign_on.py"
    "::test_same_subject_at_another_issuer_is_another_person",
)
def subject_alone_is_an_identity(real: Real, provider: Thing, data: Thing) -> Thing:
    return data["sub"]


@planted(
    "mqservice.people.openid:OpenIdAdapter._proved",
    f"{_TESTS}/people/test_single_sign_on.py::test_id_token_of_another_key_opens_nothing",
)
def anybody_signs_id_tokens(real: Real, adapter: Thing, id_token: Thing) -> Thing:
    return jwt.decode(id_token, options={"verify_signature": False})


@planted(
    "mqservice.topics.routes:find_topic_routes",
    f"{_TESTS}/topics/test_routes.py::test_topics_of_another_namespace_of_the_tenant_are_not_searched",
    f"{_TESTS}/topics/test_routes.py::test_namespaces_of_others_have_no_topics",
)
def key_is_searched_in_every_namespace(real: Real, asked: Thing) -> Thing:
    rows = Namespace.objects.values_list("tenant_id", "name")
    found = [real(asked._replace(tenant_id=tenant, namespace=name)) for tenant, name in rows]
    routes = sorted((route for each in found for route in each.routes), key=lambda each: each.name)
    left = sum(each.left_count for each in found) + max(0, len(routes) - asked.count_max)
    return TopicRoutes(routes[: asked.count_max], left)
