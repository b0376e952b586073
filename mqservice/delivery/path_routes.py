"""Topic and group that a request's path names, from this process's caches or from PostgreSQL."""

from __future__ import annotations

from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.http import Request
from mqservice.groups.routes import GroupRoute
from mqservice.lib.names import name_fault
from mqservice.lib.problem import Problem
from mqservice.topics.routes import TopicRoute


async def group_route(context: DeliveryContext, request: Request) -> GroupRoute:
    """The group of the path."""
    ns, name = request.match.ns, request.match.group
    routes = context.caches.routes
    route = routes.group(request.principal, ns, name)
    if route is None:
        if fault := name_fault(name):
            raise Problem.of("ILLEGAL_GROUP", fault)
        route = await routes.load_group(request.principal, ns, name)
    return route


async def topic_route(context: DeliveryContext, request: Request) -> TopicRoute:
    """The topic of the path."""
    ns, name = request.match.ns, request.match.topic
    routes = context.caches.routes
    route = routes.topic(request.principal, ns, name)
    if route is None:
        if fault := name_fault(name):
            raise Problem.of("ILLEGAL_TOPIC", fault)
        route = await routes.load_topic(request.principal, ns, name)
    return route
