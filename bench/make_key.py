"""``python -m bench.make_key NAMESPACE KIND``: makes a key and prints it.

``patterns``: one that may produce by patterns only, of which the one that fits comes last;
``access``: an access key that may all, as id and secret. Runs with the settings of the service.
"""

from __future__ import annotations

import os
import sys


def main(name: str, kind: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mqservice.settings")
    import django

    django.setup()
    from mqservice.accounts.models import Namespace
    from mqservice.accounts.scopes import Scope
    from mqservice.accounts.services import create_api_key
    from mqservice.accounts.settings import KeyKind

    namespace = Namespace.objects.select_related("tenant").get(name=name)
    is_access = kind == KeyKind.ACCESS
    patterns = [*(f"produce:topic/other{number}*" for number in range(15)), "produce:topic/o*"]
    row, text = create_api_key(
        namespace.tenant,
        name=kind,
        scopes=list(Scope) if is_access else patterns,
        namespace=namespace,
        kind=KeyKind.ACCESS if is_access else KeyKind.API,
    )
    sys.stdout.write(f"{row.public_id} {text}" if is_access else text)


if __name__ == "__main__":
    main(*sys.argv[1:])
