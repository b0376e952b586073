"""Shared searches over REST: ``/v1/ns/{ns}/searches`` and ``searches/{name}``."""

from __future__ import annotations

from django.http import HttpResponse
from ninja import Router, Status

from mqservice.accounts.queries import get_namespace
from mqservice.accounts.rest import AuthedRequest
from mqservice.accounts.scopes import Scope
from mqservice.lib.etags import etag, revision_of
from mqservice.searches.queries import get_search, searches_of
from mqservice.searches.schemas import SearchesOut, SearchIn, SearchOut
from mqservice.searches.services import delete_search, put_search

router = Router(tags=["searches"])


@router.get("/ns/{ns}/searches", response=SearchesOut)
def list_searches(request: AuthedRequest, ns: str) -> SearchesOut:
    """List the searches that the namespace shares, up to a hundred, by name. Needs the scope
    ``consume`` for all topics: a search may say what messages contain. Two queries."""
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.CONSUME)
    found = searches_of(namespace)
    return SearchesOut(searches=[SearchOut.of(row, namespace.name) for row in found])


@router.get("/ns/{ns}/searches/{name}", response=SearchOut)
def read_search(request: AuthedRequest, response: HttpResponse, ns: str, name: str) -> SearchOut:
    """Read one shared search. Two queries."""
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.CONSUME)
    row = get_search(namespace, name)
    response["ETag"] = etag(row.revision)
    return SearchOut.of(row, namespace.name)


@router.put("/ns/{ns}/searches/{name}", response={200: SearchOut, 201: SearchOut})
def write_search(
    request: AuthedRequest, response: HttpResponse, ns: str, name: str, search: SearchIn
) -> Status[SearchOut]:
    """Create a shared search or replace one: 201 when it is new. ``If-Match`` guards against a lost
    update."""
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.MANAGE)
    revision = revision_of(request.headers.get("If-Match"))
    row, is_new = put_search(request.auth, namespace, name, search.q, revision=revision)
    response["ETag"] = etag(row.revision)
    return Status(201 if is_new else 200, SearchOut.of(row, namespace.name))


@router.delete("/ns/{ns}/searches/{name}", response={204: None})
def remove_search(request: AuthedRequest, ns: str, name: str) -> Status[None]:
    """Delete a shared search, for everybody."""
    namespace = get_namespace(request.auth, ns)
    request.auth.require(Scope.MANAGE)
    revision = revision_of(request.headers.get("If-Match"))
    delete_search(request.auth, namespace, name, revision=revision)
    return Status(204, None)
