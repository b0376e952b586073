"""Whose request it is, by its signature. Until there are access keys, nobody's."""

from __future__ import annotations

from dataclasses import dataclass

from mqservice.accounts.access import KeyCache, Principal
from mqservice.lib.safe_headers import Headers
from mqservice.lib.clock import Clock
from mqservice.sqs.errors import SqsError


@dataclass(frozen=True, slots=True)
class Signed:
    """What a request says of its signature: the access key and the region."""

    key_id: bytes
    region: str


class Signatures:
    """One per process."""

    def __init__(self, keys: KeyCache, clock: Clock) -> None:
        pass

    def read(
        self, method: str, path: bytes, query: bytes, headers: Headers, now_s: float
    ) -> Signed:
        """Raises SqsError unless the request is signed."""
        if not any(name == b"authorization" for name, _ in headers):
            raise SqsError("MissingAuthenticationToken", "The request must be signed.")
        raise SqsError("InvalidClientTokenId", "The security token of the request is invalid.")

    def verify(self, signed: Signed, body: bytes) -> Principal:
        """Raises SqsError unless the signature is right."""
        raise SqsError("InvalidClientTokenId", "The security token of the request is invalid.")
