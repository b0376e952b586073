"""A few hundred requests made from the document, against the whole service."""

from __future__ import annotations

import pytest

from tests.mqservice.reference.fuzzing import fuzz
from tests.services import Service

pytestmark = pytest.mark.acceptance
CASES = 300


def test_no_request_of_the_document_breaks_the_service_or_the_document(service: Service) -> None:
    report = fuzz(service, cases=CASES, seed=7)

    assert report.breaks == [], report.summary
    assert report.cases > CASES / 2
    assert report.statuses[200] > CASES / 10
    assert report.statuses[400] > CASES / 20
