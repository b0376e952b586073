"""``python -m bench.second_tenant NAME QUOTA``: a tenant with a key, a topic and a limit, as JSON.

Runs with the settings of the service that it is made in.
"""

from __future__ import annotations

import os
import sys

import msgspec


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
    from mqservice.quotas.models import Source
    from mqservice.quotas.services import put_limits
    from mqservice.topics.services import TopicChange, put_topic

    tenant = get_or_create_tenant(name)
    namespace = get_or_create_namespace(tenant, name)
    _, key = create_api_key(tenant, name="bench", scopes=list(Scope), namespace=namespace)
    put_topic(namespace, "orders", TopicChange(queue_count=4))
    put_limits(None, tenant, Source.OPERATOR, {"messages_in_per_second": messages_in_per_second})
    facts = {"api_key": key, "namespace": name, "topic": "orders"}
    sys.stdout.write(msgspec.json.encode(facts).decode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
