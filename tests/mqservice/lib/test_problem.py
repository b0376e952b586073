"""Problem documents: their fields, their codes, their headers."""

from __future__ import annotations

import msgspec
import pytest

from mqservice.lib.problem import CODES, RETRYABLE_CODES, Problem, ProblemItem, problem_bytes, slug


def test_document_has_the_fields_of_the_api() -> None:
    problem = Problem.of(
        "BAD_REQUEST", "two things", errors=[ProblemItem("/2/body_b64", "BODY_NOT_BASE64")]
    )
    document = msgspec.json.decode(problem_bytes(problem, instance="/v1/x", request_id="01J"))
    assert document == {
        "type": "/errors/bad-request",
        "title": "Bad request",
        "status": 400,
        "code": "BAD_REQUEST",
        "detail": "two things",
        "instance": "/v1/x",
        "request_id": "01J",
        "retryable": False,
        "retry_after_ms": None,
        "errors": [{"pointer": "/2/body_b64", "code": "BODY_NOT_BASE64"}],
    }


@pytest.mark.parametrize("stored", [True, False])
def test_stored_is_sent_when_it_is_known(stored: bool) -> None:
    problem = Problem.of("ENGINE_UNAVAILABLE", "away", stored=stored)
    document = msgspec.json.decode(problem_bytes(problem, instance="/", request_id=""))
    assert document["stored"] is stored


def test_stored_is_left_out_when_nobody_knows() -> None:
    problem = Problem.of("OUTCOME_UNKNOWN", "away")
    assert "stored" not in msgspec.json.decode(problem_bytes(problem, instance="/", request_id=""))


@pytest.mark.parametrize("code", sorted(CODES))
def test_status_and_retryable_come_from_the_tables(code: str) -> None:
    problem = Problem.of(code, "")
    assert problem.status == CODES[code][0]
    assert problem.retryable == (code in RETRYABLE_CODES)
    assert 400 <= problem.status < 600
    assert slug(code).upper().replace("-", "_") == code


def test_client_errors_are_not_retryable_but_for_those_that_pass() -> None:
    passing = {
        "REQUEST_TIMEOUT", "IDEMPOTENCY_IN_PROGRESS", "RATE_LIMITED", "INFLIGHT_LIMIT",
        "SUBSCRIPTION_CONFLICT",
    }  # fmt: skip
    assert {code for code in RETRYABLE_CODES if CODES[code][0] < 500} == passing


def test_retry_after_is_rounded_up_to_whole_seconds() -> None:
    assert Problem.of("RATE_LIMITED", "", retry_after_ms=1_001).headers["retry-after"] == "2"
    assert Problem.of("RATE_LIMITED", "", retry_after_ms=1).headers["retry-after"] == "1"


def test_unauthenticated_names_the_scheme() -> None:
    assert Problem.of("UNAUTHENTICATED", "").headers["www-authenticate"].startswith("Bearer")
