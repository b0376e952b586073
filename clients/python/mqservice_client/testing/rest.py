"""The REST API of the fake: a request to a response, over the store.

Request ─▶ [RestApi.answer] ─▶ Response; None: a receive that waits for messages
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec

from ..errors import UsageError
from ..http_calls import JSON_TYPE, PACK_TYPE, RAW_TYPE, Request, Response
from ..protocol.messages import ProduceMessage
from ..protocol.problem_texts import MEANINGS
from ..values import milliseconds
from .settings import (
    GROUP_CHECKS,
    GROUP_DEFAULTS,
    TOPIC_CHECKS,
    TOPIC_DEFAULTS,
    changed,
    checked_name,
    shown,
    time_text,
)
from .store import (
    DELAY_LEVELS_S,
    DeadLetter,
    FakeMessage,
    Group,
    Lease,
    Progress,
    Refusal,
    Store,
    Topic,
)

Json = dict[str, Any]  # Any: JSON
NAMESPACE: Final = "fake"
YEAR_MS: Final = 365 * 86_400_000
RECEIVE_BYTES_MAX: Final = 8 * 1024 * 1024
PAGE: Final = 1_000
TRACE_FIELDS: Final = ("traceparent", "tracestate")
T = TypeVar("T")


class Call(msgspec.Struct):
    """A request, taken apart."""

    request: Request
    places: tuple[str, ...]
    query: Mapping[str, str]

    def json(self) -> Json:
        content = self.request.content
        if not content:
            return {}
        try:
            found = msgspec.json.decode(content)
        except msgspec.DecodeError as exc:
            raise Refusal("BAD_REQUEST", f"the body is no JSON: {exc}") from exc
        if not isinstance(found, dict):
            raise Refusal("BAD_REQUEST", "the body must be an object")
        return found

    def require_revision(self, row: Topic | Group | None) -> None:
        wanted = self.request.headers.get("if-match")
        if wanted is not None and (row is None or wanted != _etag(row.revision)):
            raise Refusal("PRECONDITION_FAILED", "it has changed since the revision in If-Match")


class Waiting(msgspec.Struct):
    """A receive that got nothing yet: ``retry`` makes the response, None while there is none."""

    retry: Callable[[], Response | None]
    empty: Response


Handler = Callable[["RestApi", Call], Response | Waiting]


class RestApi:
    """Answers requests. Its caller holds the store's lock."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._requests = 0
        self._receives: dict[tuple[str, str], list[Lease]] = {}
        self._tasks: dict[str, Json] = {}

    def answer(self, request: Request) -> Response | Waiting:
        self._requests += 1
        path, _, query = request.path.partition("?")
        parts = path.split("/")
        below = "/".join(parts[4:]) if parts[:3] == ["", "v1", "ns"] else ""
        for method, pattern, handler in _ROUTES:
            found = pattern.fullmatch(below)
            if method == request.method and found is not None:
                places = tuple(map(unquote, found.groups()))
                call = Call(request, places, dict(parse_qsl(query, keep_blank_values=True)))
                return self._guarded(partial(handler, self, call), path)
        missing = f"the fake of the service has no {request.method} {path}"
        return self._problem(Refusal("NOT_FOUND", missing), path)

    def _guarded(self, make: Callable[[], T], path: str) -> T | Response:
        try:
            found = make()
        except Refusal as exc:
            return self._problem(exc, path)
        if isinstance(found, Waiting):
            retry = found.retry
            found.retry = lambda: self._guarded(retry, path)
        return found

    # Produce --------------------------------------------------------------------------------

    def produce(self, call: Call) -> Response:
        topic = self._store.topic(call.places[0])
        headers = call.request.headers
        if headers.get("content-type") == RAW_TYPE:
            form = _form_of_headers(call.request)
        else:
            form = _decode_form(call.request.content or b"")
        if not any(name in form.properties for name in TRACE_FIELDS):
            form.properties.update(
                {name: headers[name] for name in TRACE_FIELDS if name in headers}
            )
        stored = self._put(topic, form, headers.get("idempotency-key"))
        return _json(stored, status=200 if stored["duplicate"] else 201)

    def produce_batch(self, call: Call) -> Response:
        topic = self._store.topic(call.places[0])
        try:
            items = msgspec.json.decode(call.request.content or b"", type=list[msgspec.Raw])
        except msgspec.DecodeError as exc:
            raise Refusal("BAD_REQUEST", f"the body is no list: {exc}") from exc
        results: list[Json] = []
        for index, item in enumerate(items):
            try:
                stored = self._put(topic, _decode_form(bytes(item)), None)
                results.append({"index": index, "status": 201, **stored})
            except Refusal as exc:
                results.append(
                    {
                        "index": index,
                        "status": exc.status,
                        "code": exc.code,
                        "detail": exc.detail,
                        "retryable": False,
                        "stored": False,
                    }
                )
        return _json({"results": results})

    def _put(self, topic: Topic, form: ProduceMessage, key: str | None) -> Json:
        body = _body_of(form)
        if len(form.keys) > 16:
            raise Refusal("ILLEGAL_KEY", f"a message has at most 16 keys, found {len(form.keys)}")
        if form.tag is not None and not 1 <= len(form.tag.encode()) <= 255:
            raise Refusal("ILLEGAL_TAG", "a tag has 1 to 255 bytes", [("/tag", "is too long")])
        if len(body) > topic.settings["body_bytes_max"]:
            raise Refusal("BODY_TOO_LARGE", f"the body has {len(body)} bytes")
        message = FakeMessage(
            id="",
            topic=topic.name,
            body=body,
            tag=form.tag,
            keys=form.keys,
            message_group=form.message_group,
            properties=form.properties,
        )
        delay_ms = delay_of(form, self._store.now_ms())
        message, is_duplicate = self._store.put(
            topic, message, queue=form.queue, delay_ms=delay_ms, key=key or form.dedup_id
        )
        return {
            "id": message.id,
            "topic": topic.name,
            "queue": message.queue,
            "offset": None if message.offset < 0 else message.offset,
            "stored_at": time_text(message.stored_ms),
            "durability": _DURABILITIES[topic.settings["durability"]],
            "deliver_at": _time_or_none(message.deliver_at_ms),
            "recall_handle": message.recall_handle,
            "transaction_id": None,
            "duplicate": is_duplicate,
        }

    # Receive and settle ---------------------------------------------------------------------

    def receive(self, call: Call) -> Response | Waiting:
        topic, group = self._store.topic(call.places[0]), self._store.group(call.places[1])
        options = call.json()
        progress = self._store.progress(topic, group, options.get("client_id"))
        lease_ms = _duration(options, "lease")
        if lease_ms is not None and not 1_000 <= lease_ms <= 12 * 3_600_000:
            raise Refusal("ILLEGAL_LEASE", f"a lease is 1 s to 12 h, found {lease_ms} ms")
        tags = tags_of(options.get("filter") or options.get("tag"))
        is_packed = call.request.headers.get("accept") == PACK_TYPE
        attempt = (group.name, options.get("attempt_id") or "")

        def respond() -> Response | None:
            if self._store.topic(topic.name) is not topic:
                raise Refusal("TOPIC_NOT_FOUND", f"topic {topic.name} is another one now")
            again = [each for each in self._receives.get(attempt, ()) if attempt[1]]
            leases = [each for each in again if each.number in progress.leases]
            if not leases:
                leases = self._store.take(
                    progress,
                    f"rest-{options.get('consumer_id')}",
                    count=options.get("max", 1),
                    bytes_max=RECEIVE_BYTES_MAX,
                    lease_ms=lease_ms,
                    auto_extend_ms=_duration(options, "auto_extend"),
                    tags=tags,
                )
            if not leases:
                return None
            self._receives[attempt] = leases
            return _received(leases, is_packed=is_packed)

        return respond() or Waiting(respond, _received([], is_packed=is_packed))

    def settle(self, call: Call) -> Response:
        group = self._store.group(call.places[0])
        body = call.json()
        counts = {"acked": 0, "nacked": 0, "dead_lettered": 0}
        failed: list[Json] = []
        extended: list[Json] = []
        for name, count in (("ack", "acked"), ("nack", "nacked"), ("dead_letter", "dead_lettered")):
            for item in body.get(name, ()):
                fields = {"receipt": item} if isinstance(item, str) else item
                number, progress = self._delivery(group, fields["receipt"])
                code = "RECEIPT_INVALID"
                if progress is not None:
                    code = self._store.settle(
                        progress,
                        number,
                        is_ack=name == "ack",
                        is_dead=name == "dead_letter",
                        delay_ms=_duration(fields, "delay"),
                        reason=fields.get("reason") or "",
                    )
                counts[count] += not code
                failed += _failure(fields["receipt"], code)
        for fields in body.get("extend", ()):
            number, progress = self._delivery(group, fields["receipt"])
            code = "RECEIPT_INVALID"
            if progress is not None:
                code = self._store.extend(progress, number, _duration(fields, "lease") or 60_000)
            failed += _failure(fields["receipt"], code)
            if not code and progress is not None:
                until = time_text(progress.leases[number].until_ms)
                extended.append({"receipt": fields["receipt"], "lease_until": until})
        return _json({**counts, "extended": extended, "failed": failed})

    def _delivery(self, group: Group, receipt: str) -> tuple[int, Progress | None]:
        number = int(receipt[1:]) if re.fullmatch(r"r[0-9]{1,18}", receipt) else -1
        return number, self._store.find(group, number)

    # Topics ---------------------------------------------------------------------------------

    def list_topics(self, call: Call) -> Response:
        names, following = _page(sorted(self._store.topics), call)
        topics = [self._topic(self._store.topics[name]) for name in names]
        return _json({"topics": topics, "next": following})

    def read_topic(self, call: Call) -> Response:
        topic = self._store.topic(call.places[0])
        return _json(self._topic(topic, has_queues=True), revision=topic.revision)

    def write_topic(self, call: Call) -> Response:
        name, now_ms = checked_name("TOPIC", call.places[0]), self._store.now_ms()
        before = self._store.topics.get(name)
        call.require_revision(before)
        known = TOPIC_DEFAULTS if before is None else before.settings
        settings = changed(known, call.json(), TOPIC_CHECKS)
        if before is None:
            self._store.topics[name] = Topic(name, settings, now_ms)
        elif settings["queues"] < before.settings["queues"]:
            raise Refusal("CONFLICT", "queues can be increased, not decreased")
        else:
            before.revision += settings != before.settings
            before.settings = settings
            before.resize()
        topic = self._store.topics[name]
        return _json(
            self._topic(topic, has_queues=True),
            status=201 if before is None else 200,
            revision=topic.revision,
        )

    def remove_topic(self, call: Call) -> Response:
        topic = self._store.topic(call.places[0])
        call.require_revision(topic)
        self._store.delete_topic(topic)
        return Response(status=204)

    def purge_topic(self, call: Call) -> Response:
        topic, is_dry_run = self._store.topic(call.places[0]), bool(call.json().get("dry_run"))
        everything = [each for each in self._store.all_progress() if each.topic is topic]
        response: Json = {
            "topic": topic.name,
            "dry_run": is_dry_run,
            "messages": len(topic.messages()),
            "inflight": sum(len(each.leases) for each in everything),
            "retries": sum(len(each.waiting) for each in everything),
            "queues": [],
        }
        if not is_dry_run:
            response["queues"] = [
                {"queue": queue, "from_offset": start, "to_offset": end}
                for queue, start, end in self._store.purge(topic)
                if start < end
            ]
        return _json(response)

    def browse(self, call: Call) -> Response:
        topic = self._store.topic(call.places[0])
        key, tag, contains = (call.query.get(name) for name in ("key", "tag", "contains"))
        found = [
            message
            for message in topic.messages()
            if (key is None or key in message.keys)
            and (tag is None or message.tag == tag)
            and (contains is None or contains.encode() in message.body)
        ]
        limit = int(call.query.get("limit", 32))
        start = int(call.query.get("cursor", 0))
        following = str(start + limit) if start + limit < len(found) else None
        return _json(
            {
                "messages": [_stored(each) for each in found[start : start + limit]],
                "next_cursor": following,
                "is_complete": True,
            }
        )

    def read_message(self, call: Call) -> Response:
        for message in self._store.topic(call.places[0]).messages():
            if message.id == call.places[1]:
                return _json(_stored(message))
        raise Refusal("MESSAGE_NOT_FOUND", f"there is no message {call.places[1]}")

    def _topic(self, topic: Topic, *, has_queues: bool = False) -> Json:
        queues = [
            {"queue": number, "min_offset": start, "max_offset": start + len(queue)}
            for number, (start, queue) in enumerate(zip(topic.starts, topic.queues, strict=True))
        ]
        created_at = time_text(topic.created_ms)
        return {
            "name": topic.name,
            "namespace": NAMESPACE,
            **shown(topic.settings, TOPIC_CHECKS),
            "created_at": created_at,
            "updated_at": created_at,
            "queue_offsets": queues if has_queues else None,
        }

    # Groups ---------------------------------------------------------------------------------

    def list_groups(self, call: Call) -> Response:
        names, following = _page(sorted(self._store.groups), call)
        groups = [self._group(self._store.groups[name]) for name in names]
        return _json({"groups": groups, "next": following})

    def read_group(self, call: Call) -> Response:
        group = self._store.group(call.places[0])
        return _json(self._group(group), revision=group.revision)

    def write_group(self, call: Call) -> Response:
        name, now_ms = checked_name("GROUP", call.places[0]), self._store.now_ms()
        before = self._store.groups.get(name)
        call.require_revision(before)
        known = GROUP_DEFAULTS if before is None else before.settings
        settings = changed(known, call.json(), GROUP_CHECKS)
        if before is None:
            self._store.groups[name] = Group(name, settings, now_ms)
        else:
            before.revision += settings != before.settings
            before.settings = settings
        group = self._store.groups[name]
        return _json(
            self._group(group),
            status=201 if before is None else 200,
            revision=group.revision,
        )

    def remove_group(self, call: Call) -> Response:
        group = self._store.group(call.places[0])
        call.require_revision(group)
        del self._store.groups[group.name]
        return Response(status=204)

    def pause_group(self, call: Call) -> Response:
        group = self._store.group(call.places[0])
        call.require_revision(group)
        is_paused = call.request.path.endswith(":pause")
        group.revision += is_paused != group.is_paused
        group.is_paused = is_paused
        return _json(self._group(group), revision=group.revision)

    def read_lag(self, call: Call) -> Response:
        group = self._store.group(call.places[0])
        lag = lag_of(group)
        return _json(
            {
                "group": group.name,
                **lag,
                "lag_is": None if lag["lag"] is None else "exact",
                "lag_ms": None,
                "offset_lag": lag["lag"],
                "topics": [],
                "retry": {"waiting": lag["waiting_retry"], "scheduled": None},
            }
        )

    def _group(self, group: Group) -> Json:
        created_at = time_text(group.created_ms)
        return {
            "name": group.name,
            "namespace": NAMESPACE,
            **shown(group.settings, GROUP_CHECKS),
            "paused": group.is_paused,
            "created_at": created_at,
            "updated_at": created_at,
            "lag": None,
        }

    # Dead letters and scheduled messages ----------------------------------------------------

    def list_dead_letters(self, call: Call) -> Response:
        group = self._store.group(call.places[0])
        key, tag, reason = (call.query.get(name) for name in ("key", "tag", "reason"))
        found = [
            _dead(letter)
            for letter in group.dead_letters
            if (key is None or key in letter.message.keys)
            and (tag is None or letter.message.tag == tag)
            and (reason is None or letter.reason == reason)
        ]
        return _json({"messages": found, "next_cursor": None, "is_complete": True})

    def read_dead_letter(self, call: Call) -> Response:
        for letter in self._store.group(call.places[0]).dead_letters:
            if letter.message.id == call.places[1]:
                return _json(_dead(letter))
        raise Refusal("MESSAGE_NOT_FOUND", f"there is no dead letter {call.places[1]}")

    def move_dead_letters(self, call: Call) -> Response:
        """Redrive or purge: all, those with ids, or those of a filter; done at once."""
        group, body = self._store.group(call.places[0]), call.json()
        wanted, ids = body.get("filter") or {}, body.get("ids")
        chosen = [
            letter
            for letter in group.dead_letters
            if (ids is None or letter.message.id in ids)
            and wanted.get("tag") in (None, letter.message.tag)
            and wanted.get("reason") in (None, letter.reason)
            and (wanted.get("key") is None or wanted["key"] in letter.message.keys)
        ]
        if body.get("dry_run"):
            counts: dict[str, int] = {}
            for letter in chosen:
                counts[letter.message.topic] = counts.get(letter.message.topic, 0) + 1
            topics = [
                {"topic": topic, "count": count, "exists": topic in self._store.topics}
                for topic, count in counts.items()
            ]
            return _json(
                {
                    "dry_run": True,
                    "count": len(chosen),
                    "is_complete": True,
                    "topics": topics,
                    "not_found": [],
                }
            )
        is_redrive = call.request.path.endswith("redrive")
        if is_redrive:
            moved = self._store.redrive(group, chosen)
        else:
            moved = len(chosen)
            group.dead_letters = [each for each in group.dead_letters if each not in chosen]
        return _json(self._task(group, body, "redrive" if is_redrive else "purge", moved), 202)

    def read_task(self, call: Call) -> Response:
        if call.places[0] not in self._tasks:
            raise Refusal("TASK_NOT_FOUND", f"there is no task {call.places[0]}")
        return _json(self._tasks[call.places[0]])

    def _task(self, group: Group, body: Json, kind: str, moved: int) -> Json:
        now, number = time_text(self._store.now_ms()), f"t_{len(self._tasks) + 1}"
        ids = body.get("ids")
        self._tasks[number] = {
            "id": number,
            "kind": kind,
            "state": "done",
            "group": group.name,
            "ids": None if ids is None else len(ids),
            "filter": None,
            "all": bool(body.get("all")),
            "target": None,
            "rate": 0,
            "total": moved,
            "moved": moved,
            "skipped": 0,
            "failed": 0,
            "looked_at": moved,
            "to_look_at": moved,
            "eta_ms": 0,
            "error": None,
            "created_by": "fake",
            "created_at": now,
            "started_at": now,
            "finished_at": now,
        }
        return self._tasks[number]

    def list_scheduled(self, call: Call) -> Response:
        topic = self._store.topic(call.places[0])
        found = [
            {
                **_stored(message),
                "offset": 0,
                "recall_handle": message.recall_handle,
                "deliver_at": _time_or_none(message.deliver_at_ms),
            }
            for message in topic.scheduled.values()
        ]
        return _json({"messages": found, "next_cursor": None})

    def cancel_scheduled(self, call: Call) -> Response:
        topic, message = self._store.scheduled(call.places[0])
        del topic.scheduled[call.places[0]]
        return _json({"id": message.id, "topic": topic.name, "state": "cancelled"})

    def send_scheduled(self, call: Call) -> Response:
        topic, message = self._store.scheduled(call.places[0])
        self._store.deliver_now(topic, message)
        return _json({"id": message.id, "topic": topic.name, "state": "sent"})

    def _problem(self, refusal: Refusal, path: str) -> Response:
        meaning = MEANINGS[refusal.code]
        return _json(
            {
                "type": f"/errors/{refusal.code.lower().replace('_', '-')}",
                "title": meaning.remedy,
                "status": refusal.status,
                "code": refusal.code,
                "detail": refusal.detail,
                "instance": path,
                "request_id": f"fake-{self._requests}",
                "retryable": False,
                "retry_after_ms": None,
                "stored": False,
                "errors": [
                    {"pointer": pointer, "code": refusal.code, "detail": detail}
                    for pointer, detail in refusal.errors
                ],
            },
            refusal.status,
        )


def _route(method: str, path: str, handler: Handler) -> tuple[str, re.Pattern[str], Handler]:
    return method, re.compile(path.replace("{}", "([^/:]+)")), handler


_DURABILITIES: Final = {"sync": "synced", "async": "buffered", "replicated": "replicated"}
_ROUTES: Final = (
    _route("POST", "topics/{}/messages", RestApi.produce),
    _route("POST", "topics/{}/messages:batch", RestApi.produce_batch),
    _route("POST", "topics/{}/groups/{}:receive", RestApi.receive),
    _route("POST", "groups/{}:settle", RestApi.settle),
    _route("GET", "topics", RestApi.list_topics),
    _route("GET", "topics/{}", RestApi.read_topic),
    _route("PUT", "topics/{}", RestApi.write_topic),
    _route("DELETE", "topics/{}", RestApi.remove_topic),
    _route("POST", "topics/{}:purge", RestApi.purge_topic),
    _route("GET", "topics/{}/messages", RestApi.browse),
    _route("GET", "topics/{}/messages/{}", RestApi.read_message),
    _route("GET", "topics/{}/scheduled", RestApi.list_scheduled),
    _route("DELETE", "scheduled/{}", RestApi.cancel_scheduled),
    _route("POST", "scheduled/{}:send", RestApi.send_scheduled),
    _route("GET", "groups", RestApi.list_groups),
    _route("GET", "groups/{}", RestApi.read_group),
    _route("PUT", "groups/{}", RestApi.write_group),
    _route("DELETE", "groups/{}", RestApi.remove_group),
    _route("POST", "groups/{}:pause", RestApi.pause_group),
    _route("POST", "groups/{}:resume", RestApi.pause_group),
    _route("GET", "groups/{}/lag", RestApi.read_lag),
    _route("GET", "groups/{}/dlq", RestApi.list_dead_letters),
    _route("GET", "groups/{}/dlq/{}", RestApi.read_dead_letter),
    _route("POST", "groups/{}/dlq:redrive", RestApi.move_dead_letters),
    _route("POST", "groups/{}/dlq:purge", RestApi.move_dead_letters),
    _route("GET", "tasks/{}", RestApi.read_task),
)


def lag_of(group: Group) -> dict[str, int | None]:
    """What a group has still to do; unknown before it has read anything."""
    names = ("lag", "ready", "inflight", "waiting_retry")
    if not group.progress:
        return dict.fromkeys(names)
    everything = list(group.progress.values())
    ready = sum(len(each.pending) for each in everything)
    inflight = sum(len(each.leases) for each in everything)
    waiting = sum(len(each.waiting) for each in everything)
    return dict(zip(names, (ready + inflight + waiting, ready, inflight, waiting), strict=True))


def tags_of(form: Any) -> frozenset[str] | None:  # Any: JSON
    """The tags of a filter; None for every message. Raises Refusal."""
    if form is None:
        return None
    if not isinstance(form, str):
        raise Refusal("ILLEGAL_FILTER", "the fake of the service knows filters by tag only")
    tags = frozenset(part.strip() for part in form.split("||"))
    return None if "*" in tags else tags


def delay_of(form: ProduceMessage, now_ms: int) -> int | None:
    """How long a message waits for its delivery. Raises Refusal."""
    given = (form.delay, form.delay_ms, form.delay_level, form.deliver_at)
    if sum(each is not None for each in given) > 1:
        raise Refusal("ILLEGAL_DELIVERY_TIME", "a message has one delivery time at most")
    delay_ms = form.delay_ms
    if form.delay is not None:
        delay_ms = _ms(form.delay)
    elif form.delay_level is not None:
        level = min(form.delay_level, len(DELAY_LEVELS_S))
        delay_ms = DELAY_LEVELS_S[level - 1] * 1_000 if level > 0 else -1
    elif form.deliver_at is not None:
        moment = datetime.fromisoformat(form.deliver_at.replace("Z", "+00:00"))
        delay_ms = max(0, round(moment.timestamp() * 1000) - now_ms)
    if delay_ms is not None and not 0 <= delay_ms <= YEAR_MS:
        raise Refusal("ILLEGAL_DELIVERY_TIME", f"a delay is 0 to 365 days, found {delay_ms} ms")
    return delay_ms


def _decode_form(content: bytes) -> ProduceMessage:
    try:
        return msgspec.json.decode(content, type=ProduceMessage)
    except msgspec.DecodeError as exc:
        raise Refusal("BAD_REQUEST", str(exc)) from exc


def _form_of_headers(request: Request) -> ProduceMessage:
    headers = request.headers
    keys, queue, level = (headers.get(f"mq-{name}") for name in ("keys", "queue", "delay-level"))
    return ProduceMessage(
        body_b64=request.content,
        tag=headers.get("mq-tag"),
        keys=keys.split(",") if keys else [],
        message_group=headers.get("mq-message-group"),
        queue=None if queue is None else int(queue),
        delay=headers.get("mq-delay"),
        delay_level=None if level is None else int(level),
        deliver_at=headers.get("mq-deliver-at"),
        dedup_id=headers.get("mq-dedup-id"),
    )


def _body_of(form: ProduceMessage) -> bytes:
    json = bytes(form.body_json)
    text = None if form.body is None else form.body.encode()
    bodies = [each for each in (text, json or None, form.body_b64) if each is not None]
    if len(bodies) != 1 or not bodies[0]:
        raise Refusal("BAD_REQUEST", "a message has one body of at least one byte")
    return bodies[0]


def _received(leases: list[Lease], *, is_packed: bool) -> Response:
    messages = [
        {
            **_stored(lease.message, is_packed=is_packed),
            "receipt": f"r{lease.number}",
            "attempt": lease.attempt,
            "max_attempts": None,
            "lease_until": time_text(lease.until_ms),
        }
        for lease in leases
    ]
    response = {"messages": messages, "backlog_hint": None}
    if is_packed:
        content = msgspec.msgpack.encode(response)
        return Response(status=200, content=content, headers={"content-type": PACK_TYPE})
    return _json(response)


def _stored(message: FakeMessage, *, is_packed: bool = False) -> Json:
    stored_at = time_text(message.stored_ms)
    fields: Json = {
        "id": message.id,
        "tag": message.tag,
        "keys": message.keys,
        "message_group": message.message_group,
        "properties": message.properties,
        "queue": message.queue,
        "offset": max(message.offset, 0),
        "born_at": stored_at,
        "stored_at": stored_at,
    }
    if is_packed:
        return {**fields, "body": message.body}
    try:
        return {**fields, "body": message.body.decode()}
    except UnicodeDecodeError:
        return {**fields, "body_b64": message.body}


def _dead(letter: DeadLetter) -> Json:
    at = time_text(letter.at_ms)
    return {
        **_stored(letter.message),
        "topic": letter.message.topic,
        "reason": letter.reason,
        "attempts": letter.attempts,
        "first_delivered_at": at,
        "last_delivered_at": at,
    }


def _page(names: list[str], call: Call) -> tuple[list[str], str | None]:
    limit = int(call.query.get("limit") or PAGE)
    after, contains = call.query.get("after", ""), call.query.get("contains", "")
    found = [name for name in names if name > after and contains in name]
    return found[:limit], found[limit - 1] if len(found) > limit else None


def _failure(receipt: str, code: str) -> list[Json]:
    if not code:
        return []
    return [{"receipt": receipt, "code": code, "message": code, "retryable": False}]


def _duration(fields: Mapping[str, Any], name: str) -> int | None:
    given = fields.get(f"{name}_ms")
    if given is not None:
        return int(given)
    return None if fields.get(name) is None else _ms(fields[name])


def _ms(text: str) -> int:
    try:
        return milliseconds(text)
    except UsageError as exc:
        raise Refusal("BAD_REQUEST", str(exc)) from exc


def _time_or_none(ms: int | None) -> str | None:
    return None if ms is None else time_text(ms)


def _etag(revision: int) -> str:
    return f'"{revision}"'


def _json(document: Json, status: int = 200, *, revision: int | None = None) -> Response:
    headers = {"content-type": JSON_TYPE}
    if revision is not None:
        headers["etag"] = _etag(revision)
    return Response(status=status, content=msgspec.json.encode(document), headers=headers)
