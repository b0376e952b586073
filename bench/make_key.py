"""``python -m bench.pattern_key NAMESPACE``: a key that may produce by patterns only, as text.

Runs with the settings of the service that it is made in. The pattern that fits comes last.
"""

from __future__ import annotations

import os
import sys


def main(name: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mqservice.settings")
    import django

    django.setup()
    from mqservice.accounts.models import Namespace
    from mqservice.accounts.services import create_api_key

    namespace = Namespace.objects.select_related("tenant").get(name=name)
    scopes = [*(f"produce:topic/other{number}*" for number in range(15)), "produce:topic/o*"]
    sys.stdout.write(
        create_api_key(namespace.tenant, name="patterns", scopes=scopes, namespace=namespace)[1]
    )


if __name__ == "__main__":
    main(sys.argv[1])
