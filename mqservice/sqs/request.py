"""One request to the SQS face, from its whole body to its one reply."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mqservice.delivery.http import Request
from mqservice.delivery.limits import KIB, MIB
from mqservice.delivery.operation import Cancel
from mqservice.lib.safe_headers import Headers
from mqservice.sqs.protocol import Call, encode_reply
from mqservice.sqs.queue_names import QueueName
from mqservice.sqs.signature import SignedRequest

# Ten messages of 1 MiB together, whatever the encoding of it: percent signs take three bytes each.
REQUEST_BYTES_MAX: Final = 4 * MIB + 64 * KIB


class SqsRequest(Request):
    """``queue``: that an action on messages names. ``is_last``: of its connection."""

    call: Call
    more_headers: Headers
    signed: SignedRequest | None = None
    queue: QueueName
    is_last = False
    is_counted = True  # until it is known for whom
    cancel: Cancel | None = None

    @property
    def wanted(self) -> Any:  # Any: the struct of the action, which its handler knows
        """The parameters of the action."""
        return self.call.request

    @property
    def region(self) -> str:
        """That the client believes to talk to."""
        assert self.signed is not None, "it was read"
        return self.signed.credential.scope.split(b"/")[1].decode("ascii", "replace")

    @property
    def base_url(self) -> str:
        """Of the service, as the client knows it."""
        host = self.headers.get(b"host", b"localhost").decode("latin-1")
        return f"{self.scope['scheme']}://{host}"

    def answer(self, reply: msgspec.Struct) -> None:
        """Send the reply of the action. Does not raise."""
        try:
            content, media_type = encode_reply(self.call, reply, self.request_id)
        except Exception as exc:
            self.fail(exc)
        else:
            self.reply(200, content, media_type)
