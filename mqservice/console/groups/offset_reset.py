"""Resetting a group's offsets: the form, the preview that must be shown, and the part that is
applied.

    form ──▶ body of ``:seek`` ──▶ dry run ──▶ Preview, signed ──▶ page
    page ──▶ signed preview ──▶ dry run again ── the same? ──▶ seek, with its audit
                                      └── not: the new preview, which says so

What is applied is what was signed: nothing that was typed after the preview counts. A shift is
applied as the offsets that were shown. Works whether consumers are there or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, cast

import msgspec
from django import forms
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from mqservice.console.shared.forms import MomentField, RefusableForm, in_zone
from mqservice.console.shared.signed_previews import find_signed, signed
from mqservice.groups.broadcast_clients import client_id_of
from mqservice.groups.models import ConsumerGroup
from mqservice.groups.offset_schemas import OFFSET_MAX, SeekIn
from mqservice.groups.offsets import SeekTarget, preview_seek
from mqservice.lib.problem import Problem
from mqservice.lib.problem_words import in_words, problem_text
from mqservice.protocol.choices import Dispatch
from mqservice.store import OffsetResetReply, QueueReset, ResetTo
from mqservice.topics.models import Topic

_PAGE: Final = "offset-reset"
_PLACES: Final = (
    ("earliest", gettext_lazy("the earliest message")),
    ("latest", gettext_lazy("the end: skip all messages")),
    ("time", gettext_lazy("the first message stored at or after a time")),
    ("offset", gettext_lazy("an offset in one queue")),
    ("shift", gettext_lazy("a shift by a number of messages")),
)


class ResetForm(RefusableForm):
    """``queue``: empty for all. Writes the body of ``POST …/groups/{group}:seek``."""

    POINTERS: ClassVar = {
        "/to": "place",
        "/to/time": "time",
        "/to/offset": "offset",
        "/to/queue": "queue",
        "/to/shift": "shift",
        "/queues": "queue",
        "/client_id": "client_id",
    }

    place = forms.ChoiceField(choices=_PLACES, label=gettext_lazy("Reset to"))
    queue = forms.ChoiceField(required=False, label=gettext_lazy("Queues"))
    time = MomentField(required=False, label=in_zone(gettext_lazy("Time")))
    offset = forms.IntegerField(
        required=False, min_value=0, max_value=OFFSET_MAX, label=gettext_lazy("Offset")
    )
    shift = forms.IntegerField(
        required=False,
        min_value=-OFFSET_MAX,
        max_value=OFFSET_MAX,
        label=gettext_lazy("Shift, messages"),
        help_text=gettext_lazy("-100 replays a hundred messages, 100 skips a hundred."),
    )
    client_id = forms.CharField(
        required=False,
        max_length=255,
        label=gettext_lazy("Client"),
        help_text=gettext_lazy(
            "Resets this client only. Empty: all clients that have read the topic."
        ),
    )

    def __init__(self, *args: object, group: ConsumerGroup, topic: Topic, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # as Django takes them
        self.topic = topic
        queues = cast("forms.ChoiceField", self.fields["queue"])
        queues.choices = [
            ("", _("all")),
            *((str(at), _("only queue %(queue)s") % {"queue": at}) for at in _ids(topic)),
        ]
        if group.dispatch != Dispatch.BROADCAST:
            del self.fields["client_id"]

    def body(self) -> dict[str, object]:
        """Of a valid form."""
        given = self.cleaned_data
        queue_id = int(given["queue"]) if given["queue"] else None
        body: dict[str, object] = {"topic": self.topic.name, "to": given["place"]}
        match given["place"]:
            case "time":
                body["to"] = {"time": given["time"]}
            case "offset":
                body["to"] = {"offset": given["offset"], "queue": queue_id}
            case "shift":
                body["to"] = {"shift": given["shift"]}
        if queue_id is not None and given["place"] != "offset":
            body["queues"] = [queue_id]
        if given.get("client_id"):
            body["client_id"] = given["client_id"]
        return body

    def add_problem(self, problem: Problem) -> None:
        known = [item for item in problem.errors if self.POINTERS.get(item.pointer) in self.fields]
        for item in known:
            self.add_error(self.POINTERS[item.pointer], in_words(item.detail))
        if not known:
            self.add_error(None, problem_text(problem))


class Row(msgspec.Struct, frozen=True, array_like=True):
    """What would happen on one queue, as it was shown."""

    queue_id: int
    from_offset: int | None
    to_offset: int
    skipped: int | None
    replayed: int | None


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What was shown to whom; ``body`` is that of ``:seek``."""

    user_id: int
    group_id: int
    body: dict[str, object]
    rows: list[Row]

    def is_unchanged(self, reply: OffsetResetReply) -> bool:
        """Whether a dry run says the same."""
        return self.rows == rows_of(reply)


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """A dry run as the page shows it."""

    reply: OffsetResetReply
    body: dict[str, object]
    token: str

    @property
    def queues(self) -> list[QueueReset]:
        return self.reply.queues

    @property
    def replayed(self) -> int | None:
        return _sum([queue.replayed_count for queue in self.queues])

    @property
    def skipped(self) -> int | None:
        return _sum([queue.skipped_count for queue in self.queues])

    @property
    def lag_after(self) -> int:
        return sum(queue.max_offset - queue.to_offset for queue in self.queues)

    @property
    def inflight(self) -> int:
        return sum(queue.inflight_count for queue in self.queues)

    @property
    def is_empty(self) -> bool:
        """Whether the group would stay where it is."""
        return all(
            queue.from_offset == queue.to_offset and not queue.inflight_count
            for queue in self.queues
        )


def target_of(group: ConsumerGroup, topic: Topic, body: dict[str, object]) -> SeekTarget:
    """What ``:seek`` makes of ``body``. Raises Problem."""
    seek = SeekIn.model_validate(body)
    return seek.target(topic.queue_count, client_id_of(group, seek.client_id))


def project(
    group: ConsumerGroup, topic: Topic, body: dict[str, object], user_id: int
) -> Projection:
    """A dry run, and what has to come back to apply it. Raises Problem."""
    reply = preview_seek(group, topic, target_of(group, topic, body))
    preview = Preview(user_id=user_id, group_id=group.pk, body=body, rows=rows_of(reply))
    return Projection(reply=reply, body=body, token=signed(_PAGE, preview))


def rows_of(reply: OffsetResetReply) -> list[Row]:
    return [
        Row(
            queue.queue_id,
            queue.from_offset,
            queue.to_offset,
            queue.skipped_count,
            queue.replayed_count,
        )
        for queue in reply.queues
    ]


def find_preview(token: str, user_id: int, group: ConsumerGroup) -> Preview | None:
    """None for what was not signed here, for this person and group, in the last ten minutes."""
    preview = find_signed(_PAGE, token, Preview)
    if preview is None or preview.user_id != user_id or preview.group_id != group.pk:
        return None
    return preview


def applied_target(group: ConsumerGroup, topic: Topic, preview: Preview) -> SeekTarget:
    """What a preview stands for. A shift leads to where it was shown to, not once more as far.

    Raises Problem.
    """
    target = target_of(group, topic, preview.body)
    if target.shift is None:
        return target
    offsets = tuple((row.queue_id, row.to_offset) for row in preview.rows)
    return SeekTarget(
        to=ResetTo.OFFSET,
        offsets=offsets,
        queue_ids=tuple(queue_id for queue_id, _ in offsets),
        shift=target.shift,
        client_id=target.client_id,
    )


def _ids(topic: Topic) -> range:
    return range(topic.queue_count)


def _sum(counts: list[int | None]) -> int | None:
    known = [each for each in counts if each is not None]
    return sum(known) if len(known) == len(counts) else None
