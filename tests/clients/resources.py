"""The control plane as the clients show it: a class for each resource, a method for each operation.

OpenAPI ──▶ RESOURCES ─┬─▶ typescript/generate.py
                       └─▶ python/generate.py, which writes the names in snake_case
"""

from __future__ import annotations

from typing import Final

from mqservice.reference.openapi import openapi_document
from mqservice.reference.parts import JsonObject

# Class, then the name of each method and the operation that it calls.
RESOURCES: Final[dict[str, dict[str, str]]] = {
    "Topics": {
        "list": "listTopics", "get": "readTopic", "create": "writeTopic", "delete": "removeTopic",
        "purge": "purgeTopic", "rateHistory": "rateHistory",
    },
    "Groups": {
        "list": "listGroups", "get": "readGroup", "create": "writeGroup", "delete": "removeGroup",
        "pause": "pauseGroup", "resume": "resumeGroup", "seek": "seekGroup", "lag": "readLag",
        "lagHistory": "lagHistory", "offsets": "readOffsets", "commitOffset": "commitOffset",
        "clients": "readClients",
    },
    "DeadLetters": {
        "list": "browseDeadLetters", "get": "readDeadLetter", "redrive": "redriveDeadLetters",
        "purge": "purgeDeadLetters",
    },
    "Tasks": {
        "list": "listTasks", "get": "readTask", "cancel": "cancelTask", "failures": "listFailures",
    },
    "Messages": {
        "browse": "browseMessages", "get": "readMessage", "trace": "traceMessage",
        "pull": "pullMessages", "offsetAtTime": "readOffsetAtTime",
    },
    "Scheduled": {
        "list": "listScheduled", "listAll": "listAllScheduled", "cancel": "cancelScheduled",
        "send": "sendScheduled", "reschedule": "reschedule",
    },
    "Schedules": {
        "list": "listSchedules", "get": "readSchedule", "create": "writeSchedule",
        "delete": "removeSchedule", "pause": "pauseSchedule", "resume": "resumeSchedule",
        "send": "sendSchedule", "preview": "previewSchedule",
    },
    "Issues": {
        "list": "listIssues", "get": "readIssue", "acknowledge": "acknowledgeIssue",
        "resolve": "resolveIssue", "ignore": "ignoreIssue", "reopen": "reopenIssue",
    },
    "Keys": {
        "list": "listKeys", "create": "createKey", "get": "readKey", "update": "updateKey",
        "revoke": "revoke", "rotate": "rotate",
    },
    "Tickets": {"create": "issueTicket"},
}  # fmt: skip


def operations(resource: str) -> dict[str, tuple[str, str, JsonObject]]:
    """Verb, path and operation of each method of a resource, by the method's name."""
    found = {
        operation["operationId"]: (verb.upper(), path, operation)
        for path, verbs in openapi_document()["paths"].items()
        for verb, operation in verbs.items()
    }
    return {method: found[identity] for method, identity in RESOURCES[resource].items()}
