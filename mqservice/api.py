"""The control plane's REST API: routers of the apps, one way to authenticate, one form of errors.

/v1/ns/{ns}/topics...   topics.api          everything raised ──▶ Problem ──▶ problem+json
/v1/ns/{ns}/groups...   groups.api, groups.offset_api, groups.clients
                        topic_schemas.api: the schema of one topic
                        sampling.api: the histories of both
/v1/ns/{ns}/definitions...   definitions.api
/v1/ns/{ns}/connections...   delivery.connections_api
/v1/ns/{ns}/alerts...   alerts.api
/v1/ns/{ns}/issues...   issues.api
/v1/ns/{ns}/tasks...    tasks.api, with dlq:redrive and dlq:purge of a group
/v1/ns/{ns}/schedules...   schedules.api
/v1/ns/{ns}/messages... traces.api
/v1/ns/{ns}/masking...  masking.api
/v1/ns/{ns}/searches...  searches.api
/v1/quotas              quotas.api
/v1/usage               usage.api
/v1/keys...             accounts.keys_api
/v1/namespaces..., /v1/members..., /v1/invitations...   accounts.people_api
/v1/audit               accounts.audit_api
/v1/ws-tickets          accounts.tickets_api
/v1/ns/{ns}/reports...  reports.api
"""

from __future__ import annotations

import logging
from typing import Final

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db import DataError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError
from ninja.operation import Operation

from mqservice.accounts.access import metadata_unavailable
from mqservice.accounts.audit_api import router as audit_router
from mqservice.accounts.keys_api import router as keys_router
from mqservice.accounts.people_api import router as people_router
from mqservice.accounts.rest import authenticate_writer
from mqservice.accounts.tickets_api import router as tickets_router
from mqservice.alerts.api import router as alerts_router
from mqservice.attention.api import router as attention_router
from mqservice.definitions.api import router as definitions_router
from mqservice.delivery.connections.api import router as connections_router
from mqservice.groups.api import router as groups_router
from mqservice.groups.clients import router as clients_router
from mqservice.groups.offset_api import router as offsets_router
from mqservice.issues.api import router as issues_router
from mqservice.lib.middleware import problem_response
from mqservice.lib.problem import Problem, ProblemItem
from mqservice.masking.api import router as masking_router
from mqservice.quotas.api import router as quotas_router
from mqservice.reports.api import router as reports_router
from mqservice.sampling.api import router as histories_router
from mqservice.schedules.api import router as schedules_router
from mqservice.searches.api import router as searches_router
from mqservice.tasks.api import router as tasks_router
from mqservice.topic_schemas.api import router as topic_schemas_router
from mqservice.topics.api import router as topics_router
from mqservice.traces.api import router as traces_router
from mqservice.usage.api import router as usage_router

log = logging.getLogger(__name__)

FAULTS_MAX: Final = 20


class ControlPlane(NinjaAPI):
    """Operations are named by their views: ``write_topic`` is writeTopic to those who call it."""

    def get_openapi_operation_id(self, operation: Operation) -> str:
        first, *others = operation.view_func.__name__.split("_")
        return first + "".join(word.capitalize() for word in others)


api = ControlPlane(
    title="mqservice control plane",
    version="1",
    auth=authenticate_writer,
    docs_url=None,
    openapi_url=None,  # reference.openapi tells of both planes
    urls_namespace="control",
)
api.add_router("", topics_router)
api.add_router("", topic_schemas_router)
api.add_router("", histories_router)
api.add_router("", offsets_router)  # before the groups: a path of theirs fits `{group}:seek` too
api.add_router("", clients_router)
api.add_router("", groups_router)
api.add_router("", definitions_router)
api.add_router("", connections_router)
api.add_router("", tasks_router)
api.add_router("", schedules_router)
api.add_router("", traces_router)
api.add_router("", alerts_router)
api.add_router("", issues_router)
api.add_router("", attention_router)
api.add_router("", masking_router)
api.add_router("", searches_router)
api.add_router("", quotas_router)
api.add_router("", usage_router)
api.add_router("", keys_router)
api.add_router("", people_router)
api.add_router("", audit_router)
api.add_router("", tickets_router)
api.add_router("", reports_router)


@api.exception_handler(Problem)
def refuse(request: HttpRequest, problem: Problem) -> HttpResponse:
    return problem_response(request, problem)


@api.exception_handler(ValidationError)
def refuse_content(request: HttpRequest, exc: ValidationError) -> HttpResponse:
    """Each fault with the pointer to its place; parameters of the query have ``?name`` instead."""
    faults = [
        ProblemItem(_pointer(fault["loc"]), "BAD_REQUEST", str(fault["msg"]))
        for fault in exc.errors[:FAULTS_MAX]
    ]
    first = faults[0] if faults else ProblemItem("", "BAD_REQUEST", "the request is not valid")
    detail = f"{first.pointer}: {first.detail}" if first.pointer else first.detail
    return problem_response(request, Problem.of("BAD_REQUEST", detail, errors=faults))


@api.exception_handler(HttpError)
def refuse_syntax(request: HttpRequest, exc: HttpError) -> HttpResponse:
    """What ninja raises by itself: a body that is not JSON."""
    detail = "the body is not valid JSON"
    return problem_response(
        request,
        Problem.of("BAD_REQUEST", detail, errors=[ProblemItem("", "BAD_REQUEST", detail)]),
    )


@api.exception_handler(Http404)
def refuse_path(request: HttpRequest, exc: Http404) -> HttpResponse:
    return problem_response(request, Problem.of("NOT_FOUND", "there is nothing at this path"))


@api.exception_handler(RequestDataTooBig)
def refuse_length(request: HttpRequest, exc: Exception) -> HttpResponse:
    detail = f"the body must have at most {settings.DATA_UPLOAD_MAX_MEMORY_SIZE} bytes"
    return problem_response(request, Problem.of("BODY_TOO_LARGE", detail))


@api.exception_handler(DataError)
def refuse_unstorable(request: HttpRequest, exc: Exception) -> HttpResponse:
    """A NUL, which JSON and percent-encoding can express and no text of PostgreSQL has."""
    log.warning(
        "PostgreSQL rejected a value in a request",
        extra={"action": "value_refused", "error": str(exc)},
    )
    detail = "a string or number in the request cannot be stored"
    return problem_response(request, Problem.of("BAD_REQUEST", detail))


@api.exception_handler(OperationalError)
@api.exception_handler(InterfaceError)
def refuse_without_database(request: HttpRequest, exc: Exception) -> HttpResponse:
    log.warning(
        "The database is not responding; rejected a request",
        extra={"action": "database_unavailable", "error": str(exc)},
    )
    return problem_response(request, metadata_unavailable())


@api.exception_handler(Exception)
def refuse_by_fault(request: HttpRequest, exc: Exception) -> HttpResponse:
    log.error(
        "A request failed with an unexpected error",
        extra={"action": "request_failed", "path": request.path},
        exc_info=exc,
    )
    detail = "the service failed; the request id identifies the failure in the log"
    return problem_response(request, Problem.of("INTERNAL", detail))


def _pointer(location: tuple[str | int, ...]) -> str:
    """``("body", "settings", "queues")`` -> ``/queues``; ``("query", "limit")`` -> ``?limit``."""
    kind, *path = location
    if kind == "query":
        return "?" + ".".join(str(part) for part in path)
    if kind == "body":
        path = path[1:]  # the first part is the name of our own parameter
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
