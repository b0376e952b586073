"""Some requests made from the document, against the whole service."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from tests.mqservice.reference.fuzzing import fuzz
from tests.services import Service, running_service
from tests.sizes import sized

pytestmark = [pytest.mark.sized, pytest.mark.acceptance, pytest.mark.timeout(300)]
CASES = sized(15, torture=500)
# Making requests of a schema costs more than sending them: few operations, of both planes.
STEP = sized(3, torture=1)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One of its own: the cases change settings that other tests count on."""
    with running_service(tmp_path_factory.mktemp("fuzz") / "data") as running:
        yield running


def test_no_request_of_the_document_breaks_the_service_or_the_document(service: Service) -> None:
    report = fuzz(service, cases=CASES, step=STEP, seed=7)

    assert report.breaks == [], report.summary
    assert report.cases > CASES / 2
    assert report.statuses[200] > CASES / 10
    assert report.statuses[400] > CASES / 20


def test_no_secret_is_in_a_log(service: Service) -> None:
    facts = service.facts
    secrets = (service.data_dir / "secrets.toml").read_text()
    planted = re.findall(r'"([^"]{16,})"', secrets)
    assert planted
    wanted = [facts.api_key, facts.password, *planted]
    # A key where it does not belong, and bodies that are refused.
    httpx.get(f"{facts.base_url}/v1/-/topics/orders/messages?key={facts.api_key}", timeout=60)
    headers = {"authorization": f"Bearer {facts.api_key}"}
    for path in ("topics/orders/messages", "topics/orders", "groups/billing:settle"):
        url = f"{facts.base_url}/v1/ns/-/{path}"
        httpx.request(
            "PUT", url, headers=headers, content=b'{"x":"%s"' % facts.api_key.encode(), timeout=60
        )
        httpx.post(url, headers=headers, content=b'{"x":"%s"' % facts.api_key.encode(), timeout=60)

    logs = [path for path in (service.data_dir / "log").rglob("*") if path.is_file()]

    assert logs
    for log in logs:
        text = log.read_text(errors="replace")
        assert [secret[:4] for secret in wanted if secret in text] == [], log.name
