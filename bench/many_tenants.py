"""``python -m bench.many_tenants COUNT``: tenants, each with a namespace and a key, as JSON.

Runs with the settings of the service that it is made in.
"""

from __future__ import annotations

import os
import sys

import msgspec


def main(count: int) -> None:
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

    made = []
    for number in range(count):
        tenant = get_or_create_tenant(f"bench{number}")
        namespace = get_or_create_namespace(tenant, f"bench{number}")
        _, key = create_api_key(tenant, name="bench", scopes=list(Scope), namespace=namespace)
        made.append({"api_key": key, "namespace": namespace.name})
    sys.stdout.write(msgspec.json.encode(made).decode())


if __name__ == "__main__":
    main(int(sys.argv[1]))
