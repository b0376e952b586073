"""Every Python snippet of docs/django.md, in a project that it makes."""

from __future__ import annotations

import inspect
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
from mqservice_client import Client
from mqservice_client.django.options import CONNECTION, BackendOptions

from tests.clients.python.conftest import Target
from tests.clients.python.django_shop import VARIANTS, Shop, python_of
from tests.docs.markdown import DOCS, Page
from tests.storage_engine.faults.machine import need_django

PAGE: Final = Page(DOCS / "django.md")
TASKS: Final = {False: "from django.tasks", True: "from django_tasks"}
# What a project has before it follows the page.
SETTINGS: Final = """
import django
import os
SECRET_KEY = "only for tests"
USE_TZ = True
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["SHOP_DATABASE"]}
}
INSTALLED_APPS = [] if django.VERSION >= (6,) else ["django_tasks"]
"""


@pytest.mark.torture
@pytest.mark.acceptance
@pytest.mark.parametrize("variant", VARIANTS)
def test_snippets_run_in_a_project_of_their_own(
    variant: str, service: Target, tmp_path: Path
) -> None:
    need_django(variant)
    prefix = f"page-{os.getpid()}-{list(VARIANTS).index(variant)}"
    files, statements = snippets(is_backport="5.2" in variant)
    project = tmp_path / "project" / "shop"
    project.mkdir(parents=True)
    own = f"TASKS['default']['OPTIONS'] = {{'prefix': {prefix!r}}}"
    (project / "settings.py").write_text(f"{SETTINGS}{files['settings.py']}\n{own}\n")
    (project / "tasks.py").write_text(files["shop/tasks.py"])
    shop = Shop(
        python_of(variant),
        tmp_path,
        prefix,
        base_url=service.base_url,
        api_key=service.api_key,
        project=project.parent,
    )
    enqueuing, reading, publishing = statements

    result_id = shop.run(f"{enqueuing}\nresult = result.id")
    shop.burst()
    said = shop.run(f"result_id = {result_id!r}\n{reading}\nresult = result.return_value")
    with Client(service.base_url, service.api_key) as mq:
        mq.topics.create("orders")
        started_at = datetime.now(UTC)
        shop.run(publishing)
        found = mq.messages.browse("orders", since=started_at, tag="created").messages

    assert said == "receipt of order 42"
    assert [(each.keys, each.json()) for each in found] == [(["order-42"], {"order": 42})]


def test_the_page_has_every_option_of_a_backend() -> None:
    options = inspect.signature(BackendOptions).parameters
    given = {name for name, each in options.items() if each.kind is each.KEYWORD_ONLY}
    table = PAGE.text.partition("`OPTIONS` of a backend may have")[2].partition("\n\n`MQSERVICE")[0]
    rows = re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE)

    shown = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert shown == given | CONNECTION - {"network"}


def snippets(*, is_backport: bool) -> tuple[dict[str, str], list[str]]:
    """Files by their names, and statements."""
    files: dict[str, str] = {}
    statements = []
    for fence in PAGE.fences:
        if fence.language != "python":
            continue
        text = fence.text.replace("from django.tasks", TASKS[is_backport])
        if found := re.match(r"# (\S+\.py)\n", text):
            files[found[1]] = text
        else:
            statements.append(text)
    return files, statements
