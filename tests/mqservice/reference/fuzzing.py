"""Requests made from the OpenAPI document, sent to a running service, answers held against it.

    document ──▶ for each operation: cases that fit it, cases that do not ──▶ service
                                         answer ──▶ checks ──▶ Report(cases, breaks)

Names in paths mostly mean what is there, so that cases get beyond "not found". By itself:
``python -m tests.mqservice.reference.fuzzing --cases 5000`` starts a service of its own.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import hypothesis
import requests
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis import GenerationMode
from schemathesis.config import SchemathesisConfig
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.specs.openapi import checks as openapi_checks

from tests.services import Service, running_service

BREAKS_MAX = 50
TIMEOUT_S = 30
NEGATIVE_SHARE = 3  # one case in so many breaks the document's rules
FRESH_SHARE = 8  # and one in so many has names that are not there
CHECKS = [
    schemathesis.checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_headers_conformance,
    openapi_checks.response_schema_conformance,
    openapi_checks.negative_data_rejection,
]
SETTINGS = {
    # The control plane passes over parameters of the query that nobody knows.
    "generation": {"allow-extra-parameters": False},
    # By itself the library does not take 412 for a refusal.
    "checks": {"negative_data_rejection": {"expected-statuses": ["4xx", "5xx"]}},
}
_NAME = re.compile(r"[A-Za-z0-9_-]+")
# The socket's handshake is no request that ends; its protocol has tests of its own.
LEFT_OUT = {"openSocket"}


@dataclass(slots=True)
class Report:
    """``statuses``: how often each was answered. ``breaks``: what was against the document."""

    cases: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    breaks: list[str] = field(default_factory=list)

    @property
    def summary(self) -> str:
        shown = ", ".join(f"{status}: {count}" for status, count in sorted(self.statuses.items()))
        return f"{self.cases} cases, {len(self.breaks)} breaks; {shown}"


class Fuzzer:
    """Cases against one service; ``seed`` decides which."""

    def __init__(self, base_url: str, key: str, *, seed: int = 0) -> None:
        self._base_url = base_url
        self._session = requests.Session()
        self._headers = {"authorization": f"Bearer {key}"}
        self._random = Random(seed)
        self._seed = seed
        self._known: dict[str, list[str]] = {}
        document = requests.get(f"{base_url}/v1/openapi.json", timeout=TIMEOUT_S).json()
        del document["security"]  # else cases bring keys of their own
        self._schema = schemathesis.openapi.from_dict(
            document, config=SchemathesisConfig.from_dict(SETTINGS)
        )
        self._schema.config.update(base_url=base_url)

    def run(self, cases: int, step: int) -> Report:
        """About ``cases`` requests, shared by all operations, or by one of each ``step``."""
        report = Report()
        operations = list(self._operations())[::step]
        each = max(2, cases // len(operations))
        is_changed = True
        for operation in operations:
            wrong = each // NEGATIVE_SHARE
            if is_changed:
                self._prepare()
            is_changed = operation.method.upper() != "GET"
            self._send(operation, GenerationMode.POSITIVE, each - wrong, report)
            if wrong:
                self._send(operation, GenerationMode.NEGATIVE, wrong, report)
        return report

    def _operations(self) -> Iterator[Any]:  # Any: the library's operations
        for result in self._schema.get_all_operations():
            operation: Any = result.ok()  # type: ignore[union-attr] # the document is valid
            if operation.definition.raw["operationId"] not in LEFT_OUT:
                yield operation

    def _send(self, operation: Any, mode: GenerationMode, count: int, report: Report) -> None:
        @hypothesis.seed(self._seed)
        @hypothesis.settings(
            max_examples=count,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        def send(case: Any) -> None:
            self._settle_names(case, mode)
            self._check(case, report)

        try:
            send()
        except hypothesis.errors.Unsatisfiable:
            return  # an operation that no request can be wrong for

    def _check(self, case: Any, report: Report) -> None:
        report.cases += 1
        asked = {"session": self._session, "headers": self._headers, "timeout": TIMEOUT_S}
        response = case.call(base_url=self._base_url, **asked)
        report.statuses[response.status_code] += 1
        try:
            case.validate_response(response, checks=CHECKS)
        except (Failure, FailureGroup) as exc:
            failures = exc.exceptions if isinstance(exc, FailureGroup) else [exc]
            for failure in failures:
                if len(report.breaks) < BREAKS_MAX:
                    body = json.dumps(_shown(case.body))[:400]
                    report.breaks.append(
                        f"{case.method} {case.formatted_path} query={case.query} body={body}\n"
                        f"  {response.status_code} {response.text[:400]}\n"
                        f"  {str(failure)[:600]}"
                    )

    def _settle_names(self, case: Any, mode: GenerationMode) -> None:
        """Let a path mean what is there, and no request wait."""
        is_new = self._random.randrange(FRESH_SHARE) == 0
        for name, value in (case.path_parameters or {}).items():
            is_wrong = mode is GenerationMode.NEGATIVE and (
                name == "queue" or not _NAME.fullmatch(str(value))
            )
            if name in self._known and not is_wrong and (name == "ns" or not is_new):
                case.path_parameters[name] = self._random.choice(self._known[name])
        identity = case.operation.definition.raw["operationId"]
        if mode is GenerationMode.POSITIVE and not is_new and isinstance(case.body, dict):
            for name in ("topic", "target"):
                if isinstance(case.body.get(name), str):
                    case.body[name] = "orders"
        if identity == "receiveMessages":
            if not isinstance(case.body, dict):
                if mode is GenerationMode.POSITIVE:
                    case.body = {"wait_ms": 0}
                    case.media_type = "application/json"
            elif case.body.get("wait_ms") not in (0, None) or case.body.get("wait") is None:
                case.body["wait_ms"] = 0
            elif isinstance(case.body["wait"], str):
                case.body["wait"] = case.body["wait"].lstrip("0123456789").join(("0", ""))

    def _prepare(self) -> None:
        """What paths may name, made again if a case has taken it away."""
        base = f"{self._base_url}/v1/ns/-"
        self._put(f"{base}/topics/orders", {})
        for group, settings in {
            "billing": {},
            "alone": {"dispatch": "exclusive"},
            "each": {"dispatch": "broadcast"},
        }.items():
            self._put(f"{base}/groups/{group}", settings)
        alert = {"kind": "lag", "group": "billing", "threshold": 1}
        self._put(f"{base}/alerts/late", alert)
        nightly = {"topic": "orders", "cron": "@daily", "message": {"body": "x"}}
        self._put(f"{base}/schedules/late", nightly)
        messages = f"{base}/topics/orders/messages"
        stored = self._post(messages, {"body": "x", "keys": ["k"], "tag": "created"})
        later = self._post(messages, {"body_json": [1], "delay": "7d"})
        self._known = {
            "ns": ["-"],
            "topic": ["orders"],
            "group": ["billing", "billing", "alone", "each"],
            "name": ["late"],
            "message_id": [stored["id"]],
            "recall_handle": [later["recall_handle"]],
            "task_id": [self._task(base)],
            "queue": ["0"],
        }

    def _task(self, base: str) -> str:
        """The one of before, unless it went with its group: only ten may be under way at a time."""
        for known in self._known.get("task_id", []):
            answer = self._session.get(
                f"{base}/tasks/{known}", headers=self._headers, timeout=TIMEOUT_S
            )
            if answer.ok:
                return known
        return self._post(f"{base}/groups/billing/dlq:purge", {"all": True})["id"]

    def _put(self, url: str, body: Any) -> None:  # Any: JSON
        response = self._session.put(url, json=body, headers=self._headers, timeout=TIMEOUT_S)
        assert response.status_code in (200, 201, 400, 409), response.text

    def _post(self, url: str, body: Any) -> dict[str, str]:  # Any: JSON
        response = self._session.post(url, json=body, headers=self._headers, timeout=TIMEOUT_S)
        assert response.ok, response.text
        found: dict[str, str] = response.json()
        return found


def fuzz(service: Service, *, cases: int, step: int = 1, seed: int = 0) -> Report:
    """Cases against a service that runs, of one of each ``step`` operations."""
    facts = service.facts
    return Fuzzer(facts.base_url, facts.api_key, seed=seed).run(cases, step)


def _shown(body: object) -> object:
    return body if isinstance(body, dict | list | str | int | float | None) else repr(body)


def main() -> int:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="fuzz-") as directory,
        running_service(Path(directory) / "data") as service,
    ):
        report = fuzz(service, cases=options.cases, seed=options.seed)
    for each in report.breaks:
        print(each)
    print(report.summary)
    return 1 if report.breaks else 0


if __name__ == "__main__":
    sys.exit(main())
