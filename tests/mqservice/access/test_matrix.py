"""Who may do what: each route × credential × own, foreign and absent names, on the whole service.

What is expected is written down in ``rows``; here is only the order in which things are decided.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import httpx
import pytest

from tests.mqservice.access.rows import (
    CONTROL_ROWS,
    DATA_ROWS,
    ROWS,
    WHO,
    Need,
    Row,
    control_routes,
    data_routes,
    framework_path,
    routes_of_rows,
)
from tests.mqservice.access.world import ABSENT, ACME, RIVAL, Names, World
from tests.people import People
from tests.sizes import IS_TORTURE, sized

DEAD = ("none", "garbage", "unknown", "expired", "revoked", "former")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
CELLS_MIN = sized(2_000, torture=6_000)
_MISMATCHES_SHOWN = 40


@dataclass(frozen=True)
class Place:
    """Whose namespace a path names, and whose thing in it. ``-``: the key's own namespace."""

    ns: str
    things: str


OF_NAMESPACE = (
    Place(ACME, ACME), Place(ACME, RIVAL), Place(ACME, ABSENT), Place(RIVAL, RIVAL),
    Place(ABSENT, RIVAL), Place("-", ACME),
)  # fmt: skip
OF_TENANT = (Place(ACME, ACME), Place(RIVAL, RIVAL), Place(ABSENT, ABSENT))
# Who has no key that is good is told so before the path is read: these places are enough.
WITHOUT_A_KEY = {Place(ACME, ACME), Place(RIVAL, RIVAL), Place(ABSENT, RIVAL), OF_TENANT[2]}
# Places that must look the same to somebody of acme, and who looks.
LOOKERS = ("viewer", "developer", "owner", "narrow")
ALIKE = ((Place(ACME, RIVAL), Place(ACME, ABSENT)), (Place(RIVAL, RIVAL), Place(ABSENT, RIVAL)))


def test_each_route_of_the_control_plane_has_a_row() -> None:
    assert control_routes() - routes_of_rows() == set(), "add a row for it in rows.py"
    assert routes_of_rows() - control_routes() == set(), "there is no such route any more"
    assert len(CONTROL_ROWS) == len(routes_of_rows())


def test_each_route_of_the_data_plane_has_a_row() -> None:
    assert data_routes() - set(DATA_ROWS) == set(), "add a row for it in rows.py"
    assert set(DATA_ROWS) - data_routes() == set(), "there is no such route any more"


@pytest.mark.sized
async def test_each_cell_of_the_matrix_is_answered_as_written(
    engine: str, valkey_server: str, people: People, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong: list[str] = []
    count = 0
    async with World(people).open() as world:
        everybody = tuple(world.credentials)
        for number, row in enumerate(sorted(ROWS, key=lambda row: row.takes_away)):
            answers: dict[tuple[str, Place], tuple[httpx.Response, Names]] = {}
            for place in places_of(row):
                for who in askers(everybody, number, place):
                    answer, names = await ask(world, row, who, place)
                    answers[who, place] = answer, names
                    expected = expected_of(row, who, place)
                    count += 1
                    if answer.status_code not in expected:
                        wrong.append(
                            f"{row.method} {row.path} as {who} of {place}: "
                            f"{answer.status_code}, not {expected}: {answer.text[:200]}"
                        )
            wrong += differences(row, answers)
        count += await refused_methods(world, wrong)
    with capsys.disabled():
        print(f"\naccess matrix: {count} cells, {len(ROWS)} routes, {len(wrong)} wrong")
    assert wrong[:_MISMATCHES_SHOWN] == []
    assert count >= CELLS_MIN


def places_of(row: Row) -> tuple[Place, ...]:
    if row.is_of_namespace:
        return OF_NAMESPACE
    return OF_TENANT if row.has_name else OF_TENANT[:1]


def askers(everybody: tuple[str, ...], number: int, place: Place) -> list[str]:
    """Whose cells of row ``number`` are tried. ``make torture`` tries all; ``make test`` all of
    one's own things, and elsewhere who has to see no difference and one more, in turn.
    """
    asking = set(everybody)
    if not IS_TORTURE and place != OF_TENANT[0]:
        asking = {LOOKERS[number % len(LOOKERS)], everybody[number % len(everybody)]}
        asking |= {"bound"} if place.ns == "-" else set()
    return [
        who for who in everybody if who in asking and (who not in DEAD or place in WITHOUT_A_KEY)
    ]


async def ask(world: World, row: Row, who: str, place: Place) -> tuple[httpx.Response, Names]:
    names = dict(world.names[place.things])
    names["ns"] = "-" if place.ns == "-" else world.names[place.ns]["ns"]
    if "handle" in row.fresh and place.things != ABSENT and who not in DEAD:
        names["handle"] = await world.new_handle(place.things)
    path = row.path.format(**names)
    if row.query:
        path += "?" + row.query.format(**names)
    body = None if row.body is None else fill(row.body, names)
    answer = await world.call(row.method, path, world.credentials[who], body)
    if row.method == "DELETE" and answer.status_code == 204:
        await world.restore_engine()
    return answer, names


def fill(body: object, names: Names) -> object:
    """``body`` with its ``{topic}`` and the like filled in."""
    if isinstance(body, dict):
        return {name: fill(value, names) for name, value in body.items()}
    if isinstance(body, list):
        return [fill(value, names) for value in body]
    return body.format(**names) if isinstance(body, str) else body


def expected_of(row: Row, who: str, place: Place) -> tuple[int, ...]:
    if row.need is Need.OPEN:
        return row.done
    if who in DEAD:
        return (401,)
    is_allowed = who in WHO[row.need]
    own = RIVAL if who == "rival" else ACME
    if row.is_of_namespace:
        is_seen = who == "bound" if place.ns == "-" else place.ns == own
        is_there = is_seen and (place.things == own or not row.has_name)
    else:
        is_seen = True
        # A key that is bound sees no other namespace, of its own tenant neither.
        is_hidden = who == "bound" and "{namespace}" in row.path
        is_there = not row.has_name or (place.things == own and not is_hidden)
    if who == "narrow" and "{handle}" in row.path and not is_there:
        return (404,)  # a scope with a pattern cannot be asked before the handle names a topic
    if row.is_asked_first and not is_allowed:
        return (403,)
    if not is_seen or (row.is_found_first and not is_there):
        return (404,)
    if not is_allowed:
        return (403,)
    return row.done if is_there else row.absent


def differences(
    row: Row, answers: dict[tuple[str, Place], tuple[httpx.Response, Names]]
) -> list[str]:
    """Where what is somebody else's could be told from what does not exist."""
    found = []
    pairs = ALIKE if row.is_of_namespace else (OF_TENANT[1:],)
    for foreign, absent in pairs if row.has_name or row.is_of_namespace else ():
        for who in LOOKERS:
            if (who, foreign) not in answers or row.path == "/v1/namespaces/{namespace}":
                continue
            one, other = (shape(*answers[who, place]) for place in (foreign, absent))
            if one != other:
                found.append(f"{row.method} {row.path} as {who}: {one} is not {other}")
    return found


def shape(answer: httpx.Response, names: Names) -> tuple[int, str, list[str]]:
    """All of an answer but its times, its request and the names that the caller gave."""
    text = answer.text
    if answer.headers.get("content-type", "").startswith("application/problem"):
        document = json.loads(text)
        del document["request_id"], document["instance"]
        text = json.dumps(document)
    elif answer.is_success:
        text = ""  # something of the caller's own that was made by that name
    for kind, name in sorted(names.items(), key=lambda item: -len(item[1])):
        text = text.replace(name, "" if kind == "ns" and name == "-" else "NAME")
    headers = sorted(name for name in answer.headers if name != "content-length")
    return answer.status_code, text, headers


async def refused_methods(world: World, wrong: list[str]) -> int:
    """Each path × each method it does not take: 405 with Allow, whoever asks. The cells."""
    taken: dict[str, set[str]] = {}
    for row in ROWS:
        taken.setdefault(row.path, set()).add(row.method)
    # The framework finds a path with a verb in one without: ``groups/{group}`` takes ``x:pause``.
    count = 0
    names = world.names[ACME]
    for path, methods in taken.items():
        if ":" in path.rpartition("/")[2].replace("{ns}", ""):
            continue
        for method in METHODS:
            if method in methods:
                continue
            answer = await world.call(method, path.format(**names), world.credentials["owner"])
            count += 1
            if answer.status_code != 405 or not answer.headers.get("allow"):
                wrong.append(f"{method} {path}: {answer.status_code}, not 405: {answer.text[:200]}")
    return count


def test_a_route_without_a_row_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    row = CONTROL_ROWS[0]
    monkeypatch.setattr("tests.mqservice.access.rows.CONTROL_ROWS", CONTROL_ROWS[1:])
    assert control_routes() - routes_of_rows() == {(row.method, framework_path(row))}
