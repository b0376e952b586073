"""Messages as files: cells that no spreadsheet runs, and an end that says what is missing."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator

from mqservice.console.messages.exports import (
    BYTE_ORDER_MARK,
    COLUMNS,
    Page,
    csv_of,
    json_of,
    ndjson_of,
    selected,
)
from mqservice.console.shared.bodies import Stored


def letter(**fields: object) -> Stored:
    return {
        "id": "01AB", "topic": "orders", "stored_at": "2026-11-22T09:00:00.000Z", "attempts": 3,
        "first_delivered_at": None, "last_delivered_at": None, "reason": "", "tag": None,
        "keys": [], "message_group": None, "properties": {}, "body": "x", **fields,
    }  # fmt: skip


async def pages(*given: Page) -> AsyncIterator[Page]:
    for page in given:
        yield page


async def rows_of(*given: Page) -> list[list[str]]:
    text = "".join([chunk async for chunk in csv_of(pages(*given), "to")])
    assert text.startswith(BYTE_ORDER_MARK)
    return list(csv.reader(io.StringIO(text.removeprefix(BYTE_ORDER_MARK))))


async def test_each_text_of_a_tenant_is_a_safe_cell() -> None:
    formula = '=cmd|"/c calc"!A0'
    hostile = letter(
        reason=formula, tag=formula, keys=[formula], message_group=formula, body=formula,
        properties={formula: "1"},
    )  # fmt: skip
    head, row = await rows_of(([hostile], False))
    assert tuple(head) == COLUMNS
    assert all(cell[:1] not in ("=", "+", "-", "@") for cell in row)
    assert row.count("'" + formula) == 5
    assert json.loads(row[COLUMNS.index("properties")]) == {formula: "1"}


def test_selected_rows_are_of_the_place_of_the_search() -> None:
    assert selected("tag:a topic:orders last:1h", ["1", "2"]) == "topic:orders id:1,2"
    assert selected("group:billing reason:x", []) == "group:billing reason:x"
    assert selected("topic = 5 topic:orders", ["1"]) == "topic:orders id:1"
    assert selected('topic:orders "', ["1"]) == 'topic:orders "'  # of which the API says why


async def test_bodies_keep_what_they_are() -> None:
    given = [
        letter(body='two\nlines, "quoted"'),
        letter(body_json={"ö": [1]}, body_text='{"ö":[ 1 ]}'),
        {key: value for key, value in letter(body_b64="/wA=").items() if key != "body"},
    ]
    _, *found = await rows_of((given, False))
    assert [row[-2:] for row in found] == [
        ['two\nlines, "quoted"', "text"],
        ['{"ö":[ 1 ]}', "json"],
        ["/wA=", "base64"],
    ]


async def test_file_that_has_not_all_says_so_at_its_end() -> None:
    given: tuple[Page, ...] = ([letter()], True), ([letter(id="02", stored_at="late")], True)
    rows = await rows_of(*given)
    assert len(rows) == 4
    assert "there are more: search on with to:late" in rows[-1][0]
    lines = "".join([chunk async for chunk in ndjson_of(pages(*given))]).splitlines()
    assert [json.loads(line).get("id") for line in lines] == ["01AB", "02", None]
    assert json.loads(lines[-1]) == {"is_complete": False, "goes_on_at": "late"}
    text = "".join([chunk async for chunk in json_of("g", pages(*given))])
    document = json.loads(text)
    assert [message["id"] for message in document["messages"]] == ["01AB", "02"]
    assert (document["is_complete"], document["goes_on_at"]) == (False, "late")


async def test_whole_and_empty_files_say_that_they_are_whole() -> None:
    for given in ([], [letter()]):
        text = "".join([chunk async for chunk in json_of('a"b', pages((given, False)))])
        document = json.loads(text)
        assert (document["q"], document["is_complete"]) == ('a"b', True)
        assert len(document["messages"]) == len(given)
        assert len(await rows_of((given, False))) == 1 + len(given)
