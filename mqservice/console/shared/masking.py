"""Hides from pages what masking hides from the user.

    answer of the data plane ──▶ [mask_response] ── each message, by its topic ──▶ what is shown
                                       └── what is clear for this role ──▶ audit, once a request

A message of which something is hidden says so: ``masked`` is ``body`` where all of the body is
hidden, and ``fields`` where values in it are; ``masked_properties`` names those of properties.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from django.http import HttpRequest
from django.utils.translation import gettext as _

from mqservice.accounts.access import Principal
from mqservice.accounts.audit import record
from mqservice.accounts.models import Namespace
from mqservice.console.shared.bodies import Stored, body_of
from mqservice.masking.masks import Masks, masks_of

SEEN_ACTION: Final = "messages.unmasked"
_KNOWN: Final = "_mq_masks"
_SEEN: Final = "_mq_unmasked"
_BODY_FORMS: Final = ("body", "body_json", "body_b64", "body_text")


def masks_for(request: HttpRequest, principal: Principal, namespace: str) -> Masks:
    """What is hidden from who looks; asked once a request."""
    known: Masks | None = getattr(request, _KNOWN, None)
    if known is None:
        known = masks_of(principal.tenant_id, namespace, principal.role)
        setattr(request, _KNOWN, known)
    return known


def known_masks(request: HttpRequest) -> Masks:
    """What ``masks_for`` found for the same request before."""
    masks: Masks = getattr(request, _KNOWN)
    return masks


def mask_response(data: Any, masks: Masks, topic: str | None) -> Any:  # Any: see asking.Answer
    """An answer with its messages, or one message, as they may be shown.

    Args:
        topic: that of all; None where each message says its own.
    """
    if masks.is_none or not isinstance(data, dict):
        return data
    if "messages" in data:
        return {**data, "messages": [_masked(each, masks, topic) for each in data["messages"]]}
    return _masked(data, masks, topic)


def shown_filter(masks: Masks, topic: str, text: str) -> str:
    """What a consumer of ``topic`` filters by: a condition would tell values of what it names."""
    if not masks.of_topic(topic).is_named_in(text):
        return text
    return _("a condition on a hidden property")


def audit_unmasked(
    request: HttpRequest,
    principal: Principal,
    namespace: str,
    data: Any,  # Any: see asking.Answer
    masks: Masks,
    topic: str | None,
) -> None:
    """Audit that somebody sees what is hidden from others; once a request for each topic."""
    if not masks.clear or not isinstance(data, dict):
        return
    seen: set[str] = getattr(request, _SEEN, set())
    found = {name for name in _topics_of(data, topic) if masks.of_topic(name).has_unmasked} - seen
    setattr(request, _SEEN, seen | found)
    for name in sorted(found):
        audit_seen(principal, namespace, name)


def audit_seen(principal: Principal, namespace: str, topic: str) -> None:
    """One row of the audit. A query for the namespace, and the insert."""
    row = Namespace.objects.get(tenant_id=principal.tenant_id, name=namespace)
    record(principal, row, SEEN_ACTION, f"topics/{topic}")


def _topics_of(data: Stored, topic: str | None) -> Iterator[str]:
    each: Stored
    for each in data.get("messages", [data] if "id" in data else []):
        yield topic or str(each.get("topic") or "")


def _masked(message: Stored, masks: Masks, topic: str | None) -> Stored:
    if "id" not in message:
        return message
    mask = masks.of_topic(topic or message.get("topic"))
    if mask.is_none:
        return message
    shown = dict(message)
    properties, hidden_names = mask.masked_properties(message.get("properties") or {})
    if hidden_names:
        shown |= {"properties": properties, "masked_properties": hidden_names}
    if not mask.hides_bodies:
        return shown
    body = body_of(message)
    found = mask.body(body)
    if found is not None and not found[1]:
        return shown
    for name in _BODY_FORMS:
        shown.pop(name, None)
    if found is None:
        return {**shown, "masked": "body", "body_bytes": len(body)}
    text = found[0].decode()
    return {**shown, "masked": "fields", "body_json": json.loads(text), "body_text": text}
