"""The data plane: a plain ASGI application for produce, receive and settle. No Django on this road.

    scope ──▶ match (dict hit) ──▶ key (dict hit) ──▶ handler ──▶ answer
                                                         └─ Problem ──▶ problem+json

Called by ``mqservice.asgi`` for every path that ``find_match`` knows. Keys and routes come from the
process's caches; only a miss asks PostgreSQL.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from typing import Final

from mqservice.accounts.access import unauthenticated
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.decoding import Fault, problem_of
from mqservice.delivery.http import (
    ClientGone,
    Match,
    Receive,
    Request,
    Scope,
    Send,
    answer_problem,
    request_id_of,
)
from mqservice.delivery.produce import produce_batch, produce_one
from mqservice.delivery.receive import receive_messages
from mqservice.delivery.settle import settle_messages
from mqservice.errors import problem_from_store
from mqservice.lib.problem import Problem
from mqservice.store import StoreError

log = logging.getLogger(__name__)

_PATH: Final = re.compile(
    r"/v1/(?:ns/(?P<ns>[^/]+)|-)/"
    r"(?:topics/(?P<topic>[^/:]+)/"
    r"(?:messages(?P<batch>:batch)?|groups/(?P<reader>[^/:]+):(?P<receive>receive))"
    r"|groups/(?P<group>[^/:]+):(?P<settle>settle))"
)
_MATCHES_MAX: Final = 10_000
PRODUCE: Final = "produce"
PRODUCE_BATCH: Final = "produce_batch"
RECEIVE: Final = "receive"
SETTLE: Final = "settle"

Handler = Callable[[DeliveryContext, Request], Awaitable[None]]
HANDLERS: Final[dict[str, Handler]] = {
    PRODUCE: produce_one,
    PRODUCE_BATCH: produce_batch,
    RECEIVE: receive_messages,
    SETTLE: settle_messages,
}
_PRODUCES: Final = frozenset({PRODUCE, PRODUCE_BATCH})

_matches: dict[str, Match] = {}


def find_match(path: str) -> Match | None:
    """What ``path`` means to the data plane; None if it is not its own. Usually one dict hit."""
    match = _matches.get(path)
    if match is not None:
        return match
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    if found["settle"]:
        operation = SETTLE
    elif found["receive"]:
        operation = RECEIVE
    else:
        operation = PRODUCE_BATCH if found["batch"] else PRODUCE
    match = Match(
        operation,
        found["ns"] or "-",
        found["topic"] or "",
        found["reader"] or found["group"] or "",
    )
    if len(_matches) >= _MATCHES_MAX:
        _matches.clear()
    _matches[path] = match
    return match


class DataPlane:
    """See the module's docstring. One per process; stateless besides its context."""

    def __init__(self, context: DeliveryContext) -> None:
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send, match: Match) -> None:
        """Answer one HTTP request that ``find_match`` has matched."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        request = Request(scope, receive, send, match, headers, request_id_of(headers))
        keys = self._context.caches.keys
        try:
            authorization = headers.get(b"authorization")
            if authorization is None:
                raise unauthenticated()
            request.principal = keys.cached(authorization) or await keys.load(authorization)
            if scope["method"] != "POST":
                problem = Problem.of("METHOD_NOT_ALLOWED", "this path takes POST only")
                await answer_problem(request, problem, [(b"allow", b"POST")])
                return
            await HANDLERS[match.operation](self._context, request)
        except Problem as problem:
            await self._refuse(request, problem)
        except Fault as fault:
            await self._refuse(request, problem_of(fault))
        except StoreError as exc:
            await self._refuse(request, problem_from_store(exc))
        except ClientGone:
            return
        except Exception:
            log.exception(
                "A data plane request failed",
                extra={"action": "request_failed", "request_id": request.request_id},
            )
            await answer_problem(
                request, Problem.of("INTERNAL", "the request failed; its id is in the log")
            )

    async def _refuse(self, request: Request, problem: Problem) -> None:
        if problem.stored is None and problem.status < 500 and request.match.operation in _PRODUCES:
            problem.stored = False
        await answer_problem(request, problem)
