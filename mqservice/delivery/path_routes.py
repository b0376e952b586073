"""The topic and group in a request's path, from this process's caches or from PostgreSQL.

handler ── known_topic ──▶ route, or NotLoaded ── load (in a task) ──▶ the handler again
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.http import Request
from mqservice.groups.routes import GroupRoute
from mqservice.lib.names import name_fault
from mqservice.lib.problem import Problem
from mqservice.topics.routes import TopicRoute


class NotLoaded(Exception):
    """A handler needs something that this process does not know yet; nothing has been done.

    Await ``load``, which may raise Problem, and call the handler again.
    """

    def __init__(self, load: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self.load = load


def known_topic(context: DeliveryContext, request: Request) -> TopicRoute:
    """The topic of the path. Raises NotLoaded, or Problem for a name that can be none."""
    route = request.topic
    if route is None:
        ns, name = request.match.ns, request.match.topic
        route = context.caches.routes.topic(request.principal, ns, name)
        if route is None:
            if fault := name_fault(name):
                raise Problem.of("ILLEGAL_TOPIC", fault)
            raise NotLoaded(partial(_load_topic, context, request))
        request.topic = route
    return route


def known_group(context: DeliveryContext, request: Request) -> GroupRoute:
    """The group of the path; otherwise like ``known_topic``."""
    route = request.group
    if route is None:
        ns, name = request.match.ns, request.match.group
        route = context.caches.routes.group(request.principal, ns, name)
        if route is None:
            if fault := name_fault(name):
                raise Problem.of("ILLEGAL_GROUP", fault)
            raise NotLoaded(partial(_load_group, context, request))
        request.group = route
    return route


async def topic_route(context: DeliveryContext, request: Request) -> TopicRoute:
    """The topic of the path, loaded where it is not known. Raises Problem."""
    try:
        return known_topic(context, request)
    except NotLoaded as missing:
        await missing.load()
    return known_topic(context, request)


async def group_route(context: DeliveryContext, request: Request) -> GroupRoute:
    """The group of the path; otherwise like ``topic_route``."""
    try:
        return known_group(context, request)
    except NotLoaded as missing:
        await missing.load()
    return known_group(context, request)


async def _load_topic(context: DeliveryContext, request: Request) -> None:
    routes, match = context.caches.routes, request.match
    request.topic = await routes.load_topic(request.principal, match.ns, match.topic)


async def _load_group(context: DeliveryContext, request: Request) -> None:
    routes, match = context.caches.routes, request.match
    request.group = await routes.load_group(request.principal, match.ns, match.group)
