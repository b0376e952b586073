"""``mqservice admin quota`` on the machine of a running service."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.services import Service

pytestmark = pytest.mark.acceptance


def admin_quota(service: Service, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {name: text for name, text in os.environ.items() if name != "DATABASE_URL"}
    env = {name: text for name, text in env.items() if not name.startswith("MQ_")}
    return subprocess.run(
        [sys.executable, "-m", "mqservice.cli.main", "admin", "quota", *arguments],
        env={**env, "MQ_DATA_DIR": str(service.data_dir)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def limits(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    assert done.returncode == 0, done.stderr
    return dict(line.split("=") for line in done.stdout.split())


def test_a_limit_of_one_tenant_is_set_and_taken_back(service: Service) -> None:
    tenant = ("--tenant", service.facts.namespace)
    changed = limits(admin_quota(service, *tenant, "topic_count_max=123"))
    default = limits(admin_quota(service))
    assert int(default["topic_count_max"]) != 123, "the others keep theirs"
    assert changed == {**default, "topic_count_max": "123"}
    assert limits(admin_quota(service, *tenant, "topic_count_max=-")) == default


def test_a_tenant_that_does_not_exist_is_refused(service: Service) -> None:
    done = admin_quota(service, "--tenant", "nobody")
    assert done.returncode != 0
    assert "tenant nobody does not exist" in done.stderr
    assert done.stdout == ""
