"""Tables as files: what a page shows and no more, all pages of it, safe in a spreadsheet."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import AsyncIterator
from typing import cast

import pytest
from asgiref.sync import async_to_sync
from django.http import HttpResponse, QueryDict, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.test import Client

from mqservice.accounts.models import User
from mqservice.console.shared import table_csv
from mqservice.console.shared.table_csv import BYTE_ORDER_MARK, read_table, table_response
from mqservice.lib.frontend import FRONTEND_DIR
from mqservice.topics.models import Topic
from tests.people import People

ROOT = "/console/acme"
TABLE = re.compile(r"<table[^>]*?(?:\{\{.*?\}\}[^>]*?)*>(.{6})", re.DOTALL)
# Forms' own tables, what a file of its own or a richer one holds, and pages of no namespace.
WITHOUT = {
    "_dry_run.html": 1, "_runs.html": 1, "group_reset.html": 2, "definitions.html": 2,
    "_explorer_table.html": 1, "tail.html": 1, "audit.html": 1, "operator.html": 4,
}  # fmt: skip


def html(rows: str, name: str = "t", *, more: str = "") -> HttpResponse:
    return HttpResponse(
        "<section><table><caption data-csv='other'></caption><thead><tr><th>x</th></tr></thead>"
        f"</table></section><section><table><caption data-csv='{name}'><a>CSV</a></caption>"
        "<thead><tr><th><input></th><th>Name</th><th class='number'><a>Count</a></th>"
        "<th>At</th><th></th></tr></thead>"
        f"<tbody>{rows}</tbody></table><div>{more}</div></section>"
        "<section><a rel='next' href='?of=another'></a></section>"
    )


def rows_in(response: HttpResponseBase) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text_in(response).removeprefix(BYTE_ORDER_MARK))))


def text_in(response: HttpResponseBase) -> str:
    assert isinstance(response, StreamingHttpResponse)
    content = cast("AsyncIterator[bytes]", response.streaming_content)

    async def read() -> bytes:
        return b"".join([chunk async for chunk in content])

    return async_to_sync(read)().decode()


def never(query: QueryDict) -> HttpResponse:
    raise AssertionError(f"there is no page {query.urlencode()}")


def test_a_cell_is_its_text_as_a_program_reads_it() -> None:
    found = read_table(
        "t",
        html(
            "<tr><td><input></td><th><span class='only-narrow'>Name </span><a>a</a><br>b &amp; c"
            "<svg><title>no</title></svg></th><td>1,234,567</td>"
            "<td><time datetime='2026-11-27T07:00:00Z'>08:00</time></td><td><button>x</button></td>"
            "</tr><tr><td></td><th>\n  two   words </th><td>–</td></tr>",
            more="<a rel='prev' href='?a'></a><a rel='next' href='?after=b&amp;q=1'>Next</a>",
        ),
    )

    assert found.titles == ["", "Name", "Count", "At", ""]
    assert found.rows == [
        ["a b & c", "1234567", "2026-11-27T07:00:00Z"],
        ["two words", "", ""],
    ]
    assert found.next_query == "after=b&q=1"


def test_of_a_choice_it_is_what_is_chosen_and_nothing_that_is_only_read_aloud() -> None:
    choice = (
        "<form><label class='sr-only'>Role of bob</label><select><option value='a'>admin</option>"
        "<option value='v' selected>viewer</option></select>"
        "<button>Save</button></form><a class='button button-small'>Remove</a>"
    )
    found = read_table("t", html(f"<tr><td></td><th>bob</th><td>{choice}</td></tr>"))

    assert found.rows == [["bob", "viewer", ""]]


def test_a_link_to_another_page_is_no_next_page_of_the_table() -> None:
    assert read_table("t", html("<tr></tr>")).next_query == ""
    day = html("<tr></tr>", more="<a rel='next' href='/console/acme/reports/2026-11-28'></a>")
    assert read_table("t", day).next_query == ""


def test_all_pages_follow_up_to_the_most_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_csv, "ROWS_MAX", 5)
    asked: list[str] = []

    def page(number: int) -> HttpResponse:
        more = f"<a rel='next' href='?page={number + 1}'></a>"
        rows = "".join(f"<tr><td></td><td>{number}-{n}</td></tr>" for n in range(2))
        return html(rows, more=more)

    def show(query: QueryDict) -> HttpResponse:
        asked.append(query.urlencode())
        return page(int(query.urlencode().removeprefix("page=")))

    rows = rows_in(table_response("t", page(1), show))

    assert rows[0] == ["Name", "Count", "At"]
    assert [row[0] for row in rows[1:-1]] == ["1-0", "1-1", "2-0", "2-1", "3-0"]
    assert rows[-1] == ["(stopped after 5 rows; there are more)"]
    assert asked == ["page=2", "page=3"]


def test_a_text_that_a_spreadsheet_would_calculate_is_quoted() -> None:
    formula = '=cmd|"/c calc"!A0'
    rows = rows_in(table_response("t", html(f"<tr><td></td><td>{formula}</td></tr>"), never))
    assert rows[1][0] == "'" + formula


def test_a_page_that_fails_on_the_way_ends_the_file_without_its_end() -> None:
    first = html("<tr></tr>", more="<a rel='next' href='?page=2'></a>")
    response = table_response("t", first, lambda query: HttpResponse(status=404))
    with pytest.raises(RuntimeError, match="failed with 404"):
        text_in(response)


@pytest.fixture
def topics(people: People) -> People:
    for number in range(60):
        Topic.objects.create(namespace=people.acme, name=f"t{number:02}", queue_count=1)
    Topic.objects.create(namespace=people.acme, name="abc", queue_count=1)
    return people


def file_of(client: Client, user: User, path: str) -> HttpResponse:
    client.force_login(user)
    return cast("HttpResponse", client.get(f"{ROOT}/{path}"))


def test_the_file_of_a_list_has_its_filter_and_all_of_its_pages(
    topics: People, client: Client
) -> None:
    page = file_of(client, topics.bob, "topics?q=t&after=t49").content.decode()
    link = re.search(r'<caption[^>]*><a[^>]* href="([^"]*)" download', page)
    assert link is not None
    assert link[1] == f"{ROOT}/topics?q=t&amp;csv=topics"

    answer = file_of(client, topics.bob, "topics?q=t&csv=topics")

    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert answer["Content-Disposition"] == 'attachment; filename="topics.csv"'
    assert answer["Cache-Control"] == "no-store"
    head, *rows = rows_in(answer)
    assert head[:2] == ["Topic", "Messages"]
    assert [row[0] for row in rows] == [f"t{number:02}" for number in range(60)]


def test_a_file_is_for_who_may_open_the_page(topics: People, client: Client) -> None:
    assert file_of(client, topics.bob, "topics?csv=nothing").status_code == 404
    assert file_of(client, topics.bob, "keys?csv=keys").status_code == 403
    assert file_of(client, topics.charlie, "topics?csv=topics").status_code == 404
    assert file_of(client, topics.alice, "keys?csv=keys").status_code == 200


def test_every_table_is_a_file_but_those_that_are_named_here() -> None:
    without: dict[str, int] = {}
    for path in (FRONTEND_DIR / "templates" / "console").glob("*.html"):
        for behind in TABLE.findall(path.read_text()):
            if behind != "{% csv":
                without[path.name] = without.get(path.name, 0) + 1
    assert without == WITHOUT
