"""Calls the data plane for pages that send or show messages, with the rights of the signed-in user.

    page ── principal, path ──▶ [call_data_plane] ─▶ delivery.plane, on the loop ──▶ status, JSON
                                 └── what masking hides from the person ◀──────────────┘

So a message that is sent from a form passes the same checks and quotas as one over REST, and
nothing of it is written twice. No page gets messages but through here, so none shows what is
hidden; a search that would find out what is hidden is refused.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from asgiref.sync import async_to_sync, sync_to_async
from django.http import Http404, HttpRequest

from mqservice.accounts.access import Principal
from mqservice.console.shared.bodies import Stored
from mqservice.console.shared.frame import Frame
from mqservice.console.shared.masking import audit_unmasked, known_masks, mask_response, masks_for
from mqservice.delivery.decoding import Fault
from mqservice.delivery.http import Message
from mqservice.delivery.plane import DataPlane, find_match
from mqservice.delivery.reading.message_query import parse_query
from mqservice.lib.problem import Problem, ProblemItem
from mqservice.masking.masks import Masks

_JSON: Final = (b"content-type", b"application/json")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPlaneResponse:
    """``data``: decoded JSON, of whatever shape the path answers with.

    A message whose body is JSON has it decoded as ``body_json`` and, letter for letter as it is
    stored, as ``body_text``.
    """

    status: int
    data: Any  # Any: read by templates and by who knows the path

    @property
    def problem(self) -> Problem | None:
        """The refusal, if it is one."""
        if self.status < 400:
            return None
        items = [
            ProblemItem(item.get("pointer", ""), item.get("code", ""), item.get("detail", ""))
            for item in self.data.get("errors", [])
        ]
        return Problem.of(self.data["code"], self.data.get("detail", ""), errors=items)


def call_data_plane(
    request: HttpRequest,
    principal: Principal,
    method: str,
    path: str,
    *,
    query: dict[str, str] | None = None,
    body: bytes = b"",
    idempotency_key: str = "",
) -> DataPlaneResponse:
    """What the data plane answers on ``path``, such as ``/v1/ns/demo/topics/orders/messages``."""
    kept = {name: value for name, value in (query or {}).items() if value}
    if method != "GET":
        return async_to_sync(_call)(
            _plane_of(request), request, principal, method, path, kept, body, idempotency_key
        )
    match = find_match(path)
    assert match is not None, f"{path} is not a path of the data plane"
    masks = masks_for(request, principal, match.ns)
    topic = match.topic or None
    try:
        reject_hidden(masks, topic, kept)
    except Problem as problem:
        return DataPlaneResponse(
            status=problem.status, data={"code": problem.code, "detail": problem.detail}
        )
    answer = async_to_sync(_call)(_plane_of(request), request, principal, method, path, kept, body)
    if answer.status >= 400:
        return answer
    audit_unmasked(request, principal, match.ns, answer.data, masks, topic)
    return DataPlaneResponse(status=answer.status, data=mask_response(answer.data, masks, topic))


def reject_hidden(masks: Masks, topic: str | None, query: dict[str, str]) -> None:
    """Raises Problem: the query would tell what is hidden by what it finds."""
    contains, wanted = query.get("contains", ""), query.get("sql") or query.get("filter", "")
    if "q" in query:
        try:
            asked = parse_query(query["q"])
        except Fault:
            return  # the data plane says what is wrong with it
        topic = asked.topic or None
        contains, wanted = asked.body_text, asked.values.get("sql", "")
    masks.of_topic(topic).reject_hidden_filter(contains=contains, wanted=wanted)


async def call_for_stream(
    request: HttpRequest, principal: Principal, path: str, query: dict[str, str]
) -> DataPlaneResponse:
    """As ``call_data_plane`` with GET, for answers that are streamed on the process's loop.

    For further pages of an answer whose first one ``call_data_plane`` gave: what is hidden stays
    what it was.
    """
    kept = {name: value for name, value in query.items() if value}
    answer = await _call(_plane_of(request), request, principal, "GET", path, kept, b"")
    match = find_match(path)
    assert match is not None, f"{path} is not a path of the data plane"
    masks = known_masks(request)
    topic = match.topic or None
    if answer.status >= 400 or (masks.is_none and not masks.clear):
        return answer
    if masks.clear:
        await sync_to_async(audit_unmasked)(request, principal, match.ns, answer.data, masks, topic)
    data = await asyncio.to_thread(mask_response, answer.data, masks, topic)
    return DataPlaneResponse(status=answer.status, data=data)


def _plane_of(request: HttpRequest) -> DataPlane:
    plane: DataPlane = request.scope["mq.plane"]  # type: ignore[attr-defined]  # of an ASGIRequest
    return plane


async def _call(
    plane: DataPlane,
    request: HttpRequest,
    principal: Principal,
    method: str,
    path: str,
    query: dict[str, str],
    body: bytes,
    idempotency_key: str = "",
) -> DataPlaneResponse:
    match = find_match(path)
    assert match is not None, f"{path} is not a path of the data plane"
    address = str(request.META.get("REMOTE_ADDR") or "0.0.0.0")
    key = [(b"idempotency-key", idempotency_key.encode())] if idempotency_key else []
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": urlencode(query).encode(),
        "headers": [
            _JSON,
            (b"content-length", str(len(body)).encode()),
            (b"x-request-id", str(request.META.get("MQ_REQUEST_ID", "")).encode()),
            *key,
        ],
        "client": (address, 0),
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await plane(scope, receive, send, match, principal)
    content = b"".join(message.get("body", b"") for message in sent[1:])
    return DataPlaneResponse(status=sent[0]["status"], data=_decoded(content) if content else None)


def _decoded(content: bytes) -> Any:  # Any: see Answer
    fields = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    messages = fields.pop("messages", None)
    found = _message(fields)
    if messages is not None:
        each = msgspec.json.decode(messages, type=list[dict[str, msgspec.Raw]])
        found["messages"] = [_message(message) for message in each]
    return found


def _message(fields: dict[str, msgspec.Raw]) -> dict[str, Any]:  # Any: see Answer
    found = {name: msgspec.json.decode(raw) for name, raw in fields.items()}
    if "body_json" in fields:
        found["body_text"] = bytes(fields["body_json"]).decode()
    return found


def read_stored(frame: Frame, things: str, message_id: str) -> tuple[Stored, str]:
    """A stored message and its path in the API. Raises Http404.

    Args:
        things: its path up to the id, such as ``topics/orders/messages``.
    """
    if not message_id.isalnum() or not message_id.isascii():
        raise Http404
    path = f"{frame.api_root}/{things}/{message_id}"
    answer = call_data_plane(frame.request, frame.principal, "GET", path)
    if answer.problem is not None:
        raise Http404(answer.problem.detail)
    return answer.data, path
