"""``python -m bench.second_tenant NAME QUOTA``: a tenant to measure with, as JSON.

It has a key, a topic, a group and a limit. Runs with the settings of the service it is made in.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec


class SecondTenant(msgspec.Struct, frozen=True):
    """What was made; the topic is in the namespace, the key may do all there."""

    api_key: str
    namespace: str
    topic: str
    group: str


def environment_of(pid: int) -> dict[str, str]:
    """Settings that a running process of a service was given."""
    pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return dict(os.fsdecode(pair).split("=", 1) for pair in pairs if b"=" in pair)


def second_tenant_of(web_pid: int, name: str, messages_in_per_second: int) -> SecondTenant:
    """Another tenant of the running service that this is a web process of, with its settings.

    Raises RuntimeError with the last words of what could not make it.
    """
    made = subprocess.run(
        [sys.executable, "-m", "bench.second_tenant", name, str(messages_in_per_second)],
        env={**os.environ, **environment_of(web_pid), "MQ_PROCESS": "manage"},
        capture_output=True,
        check=False,
    )
    if made.returncode:
        raise RuntimeError(f"no second tenant: {made.stderr.decode()[-500:]}")
    return msgspec.json.decode(made.stdout, type=SecondTenant)


def main(name: str, messages_in_per_second: int) -> None:
    """Make what is missing."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mqservice.settings")
    import django

    django.setup()
    from mqservice.accounts.scopes import Scope
    from mqservice.accounts.services import (
        create_api_key,
        get_or_create_namespace,
        get_or_create_tenant,
    )
    from mqservice.groups.services import GroupChange, put_group
    from mqservice.quotas.models import Source
    from mqservice.quotas.services import put_limits
    from mqservice.topics.services import TopicChange, put_topic

    tenant = get_or_create_tenant(name)
    namespace = get_or_create_namespace(tenant, name)
    _, key = create_api_key(tenant, name="bench", scopes=list(Scope), namespace=namespace)
    put_topic(namespace, "orders", TopicChange(queue_count=4))
    put_group(namespace, "billing", GroupChange())
    put_limits(None, tenant, Source.OPERATOR, {"messages_in_per_second": messages_in_per_second})
    made = SecondTenant(api_key=key, namespace=name, topic="orders", group="billing")
    sys.stdout.write(msgspec.json.encode(made).decode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
