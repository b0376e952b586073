"""``POST /v1/ws-tickets``: a ticket for one socket, for a key or a user's session.

key ──────────────────────────▶ ┐
session, token against forgery ▶┴ may it be narrowed so? ──▶ ticket, LIFE_MS
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from allauth.usersessions.models import UserSession
from django.conf import settings
from django.http import HttpRequest
from msgspec.structs import replace
from ninja import Router, Schema, Status
from ninja.utils import check_csrf

from mqservice.accounts.access import key_of_header, secret_mac, unauthenticated
from mqservice.accounts.key_schemas import unique_grants
from mqservice.accounts.models import User
from mqservice.accounts.rest import authenticate
from mqservice.accounts.settings import TICKET
from mqservice.accounts.ticket_holders import Holder, find_holder
from mqservice.accounts.tickets import LIFE_MS, Tickets
from mqservice.lib.problem import Problem
from mqservice.lib.settings_table import read_body
from mqservice.lib.throttle import Throttle
from mqservice.lib.wire import refused

router = Router(tags=["sockets"])

TICKETS: Final = Throttle("ticket", limit=300, window_s=60)  # of one key or session


@dataclass(frozen=True, slots=True, kw_only=True)
class Requester:
    """Who asks for a ticket: a key, or a session."""

    holder: Holder
    name: str  # for counting


class TicketRequest(HttpRequest):
    """A request that ``authenticate_requester`` has let through."""

    auth: Requester


class TicketOut(Schema):
    """`ticket` opens one socket within `expires_in_ms`: offer it as a subprotocol, prefixed with
    `ticket.`, in addition to `mq.v1.json` or `mq.v1.msgpack`."""

    ticket: str
    expires_in_ms: int
    namespace: str | None
    scopes: list[str]


def authenticate_requester(request: HttpRequest) -> Requester:
    """By key, or by session with the token of its forms. Raises Problem 401, 403."""
    if "Authorization" in request.headers:
        principal = authenticate(request)
        key = key_of_header(request.headers["Authorization"].encode("latin-1", "replace"))
        assert key is not None, "let through by it"
        holder = Holder(key_id=principal.key_id, key_mac=secret_mac(key))
        return Requester(holder=holder, name=f"key {principal.key_id}")
    if not isinstance(request.user, User):
        raise unauthenticated()
    if check_csrf(request) is not None:
        raise Problem.of("FORBIDDEN", "send the token of the page's forms as X-CSRFToken")
    key_of_session = request.session.session_key
    row = UserSession.objects.filter(user=request.user, session_key=key_of_session).first()
    if row is None:
        raise unauthenticated()
    return Requester(holder=Holder(session_row=row.pk), name=f"session {row.pk}")


@router.post("/ws-tickets", response={201: TicketOut}, auth=authenticate_requester)
def issue_ticket(request: TicketRequest) -> Status[TicketOut]:
    """Create a ticket that opens one socket, once and soon, for a page that cannot send a key."""
    TICKETS.spend(request.auth.name, "requests for tickets")
    values = read_body(TICKET, request.body)
    namespace, grants = values["namespace"], unique_grants(values["grants"])
    holder = request.auth.holder
    if holder.session_row and namespace is None:
        raise refused("/namespace", "a session must name the namespace")
    holder = replace(holder, namespace=namespace)
    principal = find_holder(holder.text)
    if principal is None:
        raise Problem.of("NAMESPACE_NOT_FOUND", f"{namespace} does not exist")
    if grants is not None:
        texts = [grant.text for grant in grants]
        holder = replace(holder, scopes=texts)
        principal = find_holder(holder.text)
        if principal is None:
            raise Problem.of("FORBIDDEN", f"you do not have the scopes {', '.join(texts)} yourself")
    ticket = Tickets(settings.MQ_VALKEY_URL).issue(holder, request.headers.get("Origin", ""))
    return Status(
        201,
        TicketOut(
            ticket=ticket,
            expires_in_ms=LIFE_MS,
            namespace=principal.namespace,
            scopes=[grant.text for grant in principal.all_grants],
        ),
    )
