"""The matrix's rows: each route of the API, what it needs, and what it answers who is let through.

A route that has no row here fails ``test_matrix``. Statuses are written down, not computed from
the service's own tables.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

from mqservice.api import api
from mqservice.delivery.operations import OPERATIONS

Body = dict[str, Any]  # Any: JSON as a client writes it; texts may name {topic} and the like


class Need(enum.Enum):
    """What a credential has to have; who has it is in ``WHO``."""

    NOTHING = enum.auto()  # any key that is good
    PRODUCE = enum.auto()
    CONSUME = enum.auto()
    MANAGE = enum.auto()
    MANAGE_ALL = enum.auto()  # manage for every topic and group
    MEMBERS_READ = enum.auto()
    ADMIN = enum.auto()
    OPEN = enum.auto()  # no credential at all


_ADMINS = {"admin", "owner", "rival"}
_DEVELOPERS = {"developer", "bound", *_ADMINS}
WHO: dict[Need, set[str]] = {
    Need.NOTHING: {"viewer", "narrow", "consumer", *_DEVELOPERS},
    Need.PRODUCE: _DEVELOPERS,
    Need.CONSUME: {"consumer", *_DEVELOPERS},
    Need.MANAGE: _DEVELOPERS,
    Need.MANAGE_ALL: _DEVELOPERS,
    Need.MEMBERS_READ: {"viewer", "narrow", "consumer", "developer", *_ADMINS},
    Need.ADMIN: _ADMINS,
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One method of one path.

    ``done``: statuses of one who is let through to what is there. ``absent``: to what is not there.
    ``is_asked_first``: whether what the credential may is decided before anything is looked up;
    else the namespace is looked up before, and with ``is_found_first`` the thing itself too.
    """

    method: str
    path: str
    need: Need
    done: tuple[int, ...] = (200,)
    absent: tuple[int, ...] = (404,)
    body: Body | None = None
    query: str = ""
    is_asked_first: bool = False
    is_found_first: bool = False
    fresh: tuple[str, ...] = field(default=())  # names that the call uses up

    @property
    def takes_away(self) -> bool:
        """Whether others would miss what the call leaves nothing of; then it comes last."""
        return self.method == "DELETE" or self.path.endswith("/topics/{topic}:purge")

    @property
    def is_of_namespace(self) -> bool:
        return "{ns}" in self.path

    @property
    def has_name(self) -> bool:
        """Whether it names a thing, which may be somebody else's or not there."""
        return "{" in (self.path + self.query).replace("{ns}", "")


def _data(method: str, path: str, need: Need, **more: Any) -> Row:  # Any: fields of Row
    return Row(method=method, path=f"/v1/ns/{{ns}}{path}", need=need, is_asked_first=True, **more)


def _ns(method: str, path: str, need: Need = Need.NOTHING, **more: Any) -> Row:  # Any: as above
    return Row(method=method, path=f"/v1/ns/{{ns}}{path}", need=need, **more)


def _account(method: str, path: str, need: Need, **more: Any) -> Row:  # Any: as above
    return Row(method=method, path=f"/v1{path}", need=need, is_asked_first=True, **more)


_TOPIC, _GROUP = "/topics/{topic}", "/groups/{group}"
_LAG = {"kind": "lag", "group": "{group}", "threshold": 7}
_EACH_NIGHT = {"topic": "{topic}", "cron": "@daily", "message": {"body": "x"}}
_MASK = {"topics": "orders*", "part": "field", "path": "/card"}
_SCHEMA = {"kind": "avro", "definition": '"long"'}
_SEEK = {"topic": "{topic}", "to": {"offset": 0, "queue": 0}}
_COMMIT = {"topic": "{topic}", "queue": 0, "offset": 0}
_DEFINITIONS = {"version": 1, "topics": [{"name": "{topic}", "retention": "2d"}]}
_DAYS = {"from": "2026-01-01", "to": "2026-01-02"}
_REPORT = "usage_daily"  # of these each tenant has its own
_SINCE = "from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z"

# By operation id.
DATA_ROWS: dict[str, Row] = {
    "produceMessage": _data(
        "POST", f"{_TOPIC}/messages", Need.PRODUCE, done=(201,), body={"body": "x"}
    ),
    "browseMessages": _data("GET", f"{_TOPIC}/messages", Need.CONSUME),
    "produceBatch": _data("POST", f"{_TOPIC}/messages:batch", Need.PRODUCE, done=(400,), body={}),
    "readMessage": _data("GET", f"{_TOPIC}/messages/{{message}}", Need.CONSUME),
    "pullMessages": _data("GET", f"{_TOPIC}/queues/0/messages", Need.CONSUME, query="offset=0"),
    "readOffsetAtTime": _data(
        "GET", f"{_TOPIC}/queues/0/offset", Need.CONSUME, query="time=2026-01-01T00:00:00Z"
    ),
    "receiveMessages": _data(
        "POST", f"{_TOPIC}{_GROUP}:receive", Need.CONSUME, body={"wait": "0s", "max": 1}
    ),
    "settleMessages": _data("POST", f"{_GROUP}:settle", Need.CONSUME, body={"ack": ["x"]}),
    "browseDeadLetters": _data("GET", f"{_GROUP}/dlq", Need.CONSUME),
    "readDeadLetter": _data("GET", f"{_GROUP}/dlq/{{message}}", Need.CONSUME, done=(404,)),
    "searchMessages": _data("GET", "/messages", Need.CONSUME, query="q=topic:{topic}"),
    "countMessagesOverTime": _data(
        "GET", "/messages:histogram", Need.CONSUME, query="q=topic:{topic}"
    ),
    "copyMessages": _data(
        "POST",
        f"{_TOPIC}/messages:copy",
        Need.PRODUCE,
        body={"q": "topic:{topic}", "dry_run": True},
    ),
    "listScheduled": _data("GET", f"{_TOPIC}/scheduled", Need.CONSUME),
    "cancelScheduled": _data("DELETE", "/scheduled/{handle}", Need.PRODUCE, fresh=("handle",)),
    "listAllScheduled": _data("GET", "/scheduled", Need.CONSUME),
    "reschedule": _data(
        "POST",
        "/scheduled/{handle}:reschedule",
        Need.PRODUCE,
        body={"delay": "2h"},
        fresh=("handle",),
    ),
    "sendScheduled": _data("POST", "/scheduled/{handle}:send", Need.PRODUCE, fresh=("handle",)),
}

CONTROL_ROWS: list[Row] = [
    _ns("GET", "/topics"),
    _ns("GET", _TOPIC),
    _ns("PUT", _TOPIC, Need.MANAGE, absent=(201,), body={"retention": "2d"}),
    _ns("DELETE", _TOPIC, Need.MANAGE, done=(204,)),
    _ns("GET", f"{_TOPIC}/schema"),
    _ns("PUT", f"{_TOPIC}/schema", Need.MANAGE, body=_SCHEMA),
    _ns("DELETE", f"{_TOPIC}/schema", Need.MANAGE, done=(204,)),
    _ns("POST", f"{_TOPIC}:purge", Need.MANAGE),
    _ns("GET", f"{_TOPIC}/rate/history", query=_SINCE),
    _ns("GET", "/groups"),
    _ns("GET", _GROUP),
    _ns("PUT", _GROUP, Need.MANAGE, absent=(201,), body={"lease": "45s"}),
    _ns("DELETE", _GROUP, Need.MANAGE, done=(204,)),
    _ns("POST", f"{_GROUP}:pause", Need.MANAGE),
    _ns("POST", f"{_GROUP}:resume", Need.MANAGE),
    _ns("POST", f"{_GROUP}:seek", Need.MANAGE, body=_SEEK),
    _ns("POST", f"{_GROUP}/offsets:commit", Need.CONSUME, done=(200, 409), body=_COMMIT),
    _ns("GET", f"{_GROUP}/offsets"),
    _ns("GET", f"{_GROUP}/offsets/history", query="topic={topic}"),
    _ns("GET", f"{_GROUP}/lag"),
    _ns("GET", f"{_GROUP}/lag/history", query=_SINCE),
    _ns("GET", f"{_GROUP}/clients"),
    _ns("GET", "/definitions"),
    _ns("POST", "/definitions:import", Need.MANAGE, body=_DEFINITIONS),
    _ns("GET", "/connections"),
    # Who is gone is gone: an id that is nobody's, or somebody else's, ends nothing.
    _ns("DELETE", "/connections/{connection}", Need.ADMIN, absent=(200,)),
    _ns("POST", f"{_GROUP}/dlq:redrive", Need.MANAGE, done=(202,), body={"all": True}),
    _ns("POST", f"{_GROUP}/dlq:purge", Need.MANAGE, done=(202,), body={"all": True}),
    _ns("GET", "/tasks"),
    _ns("GET", "/tasks/{task}"),
    _ns("GET", "/tasks/{task}/failures"),
    _ns("POST", "/tasks/{task}:cancel", Need.MANAGE, is_found_first=True),
    _ns("GET", "/messages/{message}/trace", Need.CONSUME),
    _ns("GET", "/attention"),
    _ns("GET", "/health"),
    _ns("GET", "/metrics"),
    _ns("GET", "/alerts"),
    _ns("GET", "/alerts.yaml"),
    _ns("GET", "/alerts/{alert}"),
    _ns("GET", "/alerts/{alert}/history"),
    _ns("POST", "/alerts/{alert}:mute", Need.MANAGE_ALL, body={"for": "1h"}),
    _ns("POST", "/alerts/{alert}:unmute", Need.MANAGE_ALL),
    _ns("POST", "/alerts/{alert}:test", Need.MANAGE_ALL, done=(202,)),
    _ns("PUT", "/alerts/{alert}", Need.MANAGE_ALL, absent=(201,), body=_LAG),
    _ns("DELETE", "/alerts/{alert}", Need.MANAGE_ALL, done=(204,)),
    _ns("GET", "/issues"),
    _ns("PUT", "/issues", Need.MANAGE_ALL, body={"resolve_after": "2d"}),
    _ns("GET", "/issues/{issue}"),
    _ns("POST", "/issues/{issue}:acknowledge", Need.MANAGE, is_found_first=True),
    _ns("POST", "/issues/{issue}:resolve", Need.MANAGE, is_found_first=True),
    _ns("POST", "/issues/{issue}:ignore", Need.MANAGE, is_found_first=True),
    _ns("POST", "/issues/{ended_issue}:reopen", Need.MANAGE, is_found_first=True),
    _ns("GET", "/schedules"),
    _ns("POST", "/schedules:preview", body={"cron": "@daily"}),
    _ns("GET", "/schedules/{schedule}"),
    _ns("PUT", "/schedules/{schedule}", Need.MANAGE_ALL, absent=(404,), body=_EACH_NIGHT),
    _ns("POST", "/schedules/{schedule}:pause", Need.MANAGE_ALL),
    _ns("POST", "/schedules/{schedule}:resume", Need.MANAGE_ALL),
    _ns("POST", "/schedules/{schedule}:send", Need.MANAGE_ALL),
    _ns("DELETE", "/schedules/{schedule}", Need.MANAGE_ALL, done=(204,)),
    _ns("GET", "/searches", Need.CONSUME),
    _ns("GET", "/searches/{search}", Need.CONSUME),
    _ns("PUT", "/searches/{search}", Need.MANAGE_ALL, absent=(201,), body={"q": "topic:x"}),
    _ns("DELETE", "/searches/{search}", Need.MANAGE_ALL, done=(204,)),
    _ns("GET", "/masking"),
    _ns("PUT", "/masking", Need.ADMIN, body={"bodies_for": "admin"}),
    _ns("GET", "/masking/{mask}"),
    _ns("PUT", "/masking/{mask}", Need.ADMIN, absent=(201,), body=_MASK),
    _ns("DELETE", "/masking/{mask}", Need.ADMIN, done=(204,)),
    _ns("GET", "/reports"),
    _ns("GET", f"/reports/{_REPORT}"),
    _ns("GET", f"/reports/{_REPORT}.csv"),
    _ns("GET", "/reports/daily.html", done=(404,)),  # nobody has any yet
    _ns("POST", "/reports:run", Need.MANAGE_ALL, done=(202,), body=_DAYS),
    _ns("GET", "/reports/recipients", Need.MANAGE_ALL),
    _ns("PUT", "/reports/recipients", Need.MANAGE_ALL, body={"emails": []}),
    _ns("GET", "/reports/runs"),
    _ns("GET", "/reports/runs/{run}"),
    _account("GET", "/keys", Need.ADMIN),
    _account("POST", "/keys", Need.ADMIN, done=(201,), body={"name": "k", "scopes": []}),
    _account("GET", "/keys/{key}", Need.ADMIN),
    _account("PATCH", "/keys/{key}", Need.ADMIN, body={"name": "other"}),
    _account("POST", "/keys/{key}:rotate", Need.ADMIN, body={}),
    _account("POST", "/keys/{key}:revoke", Need.ADMIN),
    _account("GET", "/namespaces", Need.NOTHING),
    _account("GET", "/namespaces/{namespace}", Need.NOTHING),
    # Names are one in the whole service, so that a foreign one cannot be made: 409, not 201.
    _account("PUT", "/namespaces/{namespace}", Need.ADMIN, absent=(201, 409)),
    _account("PATCH", "/namespaces/{namespace}", Need.ADMIN, body={"read_only": True}),
    _account("DELETE", "/namespaces/{namespace}", Need.ADMIN, done=(204,)),
    _account("GET", "/members", Need.MEMBERS_READ),
    _account("GET", "/members/{member}", Need.MEMBERS_READ),
    _account("PATCH", "/members/{member}", Need.ADMIN, body={"role": "developer"}),
    _account("DELETE", "/members/{member}", Need.ADMIN, done=(204,)),
    _account("GET", "/invitations", Need.ADMIN),
    _account(
        "POST", "/invitations", Need.ADMIN, done=(201,),
        body={"email": "d@x.example", "role": "viewer"},
    ),
    _account("POST", "/invitations:accept", Need.OPEN, done=(404,), body={
        "token": "mqi_" + "A" * 44, "username": "alice", "password": "x",
    }),
    _account("GET", "/invitations/{invitation}", Need.ADMIN),
    _account("DELETE", "/invitations/{invitation}", Need.ADMIN, done=(204,)),
    _account("GET", "/audit", Need.ADMIN),
    _account("POST", "/ws-tickets", Need.NOTHING, done=(201,), body={}),
    _account("GET", "/quotas", Need.NOTHING),
    _account("GET", "/usage", Need.NOTHING),
    _account("PUT", "/quotas", Need.ADMIN, body={"topic_count_max": 5_000}),
]  # fmt: skip

ROWS: list[Row] = [*DATA_ROWS.values(), *CONTROL_ROWS]
# What routes call the names in their paths, where that is something else here.
_OTHER_NAMES = {
    "task_id": "task", "message_id": "message", "key_id": "key", "username": "member",
    "invitation_id": "invitation", "run_id": "run", "connection_id": "connection",
    "issue_id": "issue",
}  # fmt: skip


def control_routes() -> set[tuple[str, str]]:
    """Method and path of each route of the control plane, as the framework has them."""
    found = set()
    for prefix, router in api._routers:
        for path, view in router.path_operations.items():
            for operation in view.operations:
                found |= {(method, f"/v1{prefix}{path}") for method in operation.methods}
    return found


def routes_of_rows() -> set[tuple[str, str]]:
    """Method and path of each row of the control plane, with the framework's names in it."""
    return {(row.method, framework_path(row)) for row in CONTROL_ROWS}


def framework_path(row: Row) -> str:
    path = row.path
    for theirs, ours in _OTHER_NAMES.items():
        path = path.replace(f"{{{ours}}}", f"{{{theirs}}}")
    path = path.replace("{ended_issue}", "{issue_id}")  # reopening an open one is no change
    for ours in ("alert", "mask", "namespace", "schedule", "search"):
        path = path.replace(f"{{{ours}}}", "{name}")
    return path.replace(_REPORT, "{name}")


def data_routes() -> set[str]:
    return {operation.operation_id for operation in OPERATIONS}
