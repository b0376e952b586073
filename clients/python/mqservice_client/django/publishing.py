"""Messages that are sent when the transaction around them commits.

with transaction.atomic():
    order.save()
    publish_on_commit("orders", {"order": order.pk})      sent after COMMIT, or never
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import msgspec
from django.db import transaction

from ..values import Body, body_form
from .connections import ConnectionOptions, client_of


def publish_on_commit(
    topic: str, body: Body, *, using: str | None = None, robust: bool = False, **options: Any
) -> None:
    """Send a message once the current transaction has committed; at once if there is none.

    It is not sent if the transaction is rolled back, nor if the process ends between the commit
    and the send: what must not be lost is a task (``TaskBackend``), which is stored in the
    transaction.

    Args:
        topic: must exist.
        body: as for ``Client.send``; written now, so that later changes of an object do no harm.
        using: alias of the database whose transaction it is.
        robust: log an error of sending instead of raising it, and run what else waits for the
            commit.
        options: as for ``Client.send``: ``tag``, ``keys``, ``message_group``, ``delay``, ….

    Raises:
        UsageError: the body cannot be written as JSON. What ``Client.send`` raises comes out of
            the block of the transaction, which has committed then.
    """
    form = body_form(body)
    content = msgspec.Raw(form.json) if form.json is not None else form.content
    options.setdefault("idempotency_key", uuid4().hex)

    def send() -> None:
        client_of(ConnectionOptions()).send(topic, content, **options)

    transaction.on_commit(send, using=using, robust=robust)
