"""An access key of the service that all tests share."""

from __future__ import annotations

import httpx
import pytest

from tests.services import Service


@pytest.fixture(scope="session")
def aws_environ(service: Service) -> dict[str, str]:
    """What AWS's libraries read: address, region and key."""
    facts = service.facts
    order = {
        "name": "sdks", "kind": "access", "namespace": facts.namespace,
        "scopes": ["produce", "consume", "manage"],
    }  # fmt: skip
    headers = {"authorization": f"Bearer {facts.api_key}"}
    made = httpx.post(f"{facts.base_url}/v1/keys", json=order, headers=headers, timeout=60)
    made.raise_for_status()
    return {
        "AWS_ENDPOINT_URL_SQS": f"{facts.base_url}/sqs",
        "AWS_REGION": "eu-central-1",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": made.json()["id"],
        "AWS_SECRET_ACCESS_KEY": made.json()["key"],
    }
