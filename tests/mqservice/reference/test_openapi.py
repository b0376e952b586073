"""The document tells of every route and only of those, in words and with examples that hold."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import jsonschema_rs
import msgspec
import pydantic
import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from mqservice.api import api
from mqservice.asgi import SOCKET_PATH
from mqservice.delivery import plane
from mqservice.delivery.operations import OPERATIONS
from mqservice.lib.problem import CODES
from mqservice.reference.asyncapi import asyncapi_json
from mqservice.reference.examples import REQUESTS
from mqservice.reference.fields import SPECIAL_TEXTS
from mqservice.reference.openapi import openapi_document, openapi_json
from mqservice.reference.parts import JsonObject
from tests.mqservice.delivery.serving import Server, serving
from tests.mqservice.delivery.store_double import StoreDouble
from tests.people import People

# Routes for people; what programs call is in the document.
PAGES = re.compile(r"/|/docs|/guide(?:/.*)?|/errors/.*|/console/.*|/account/.*")
ALIASES = {"/openapi.json": "/v1/openapi.json", "/asyncapi.json": "/v1/asyncapi.json"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(StoreDouble()) as running:
        yield running


def operations() -> Iterator[tuple[str, str, JsonObject]]:
    for path, methods in openapi_document()["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def subclasses(kind: type[Any]) -> Iterator[type[Any]]:
    for child in kind.__subclasses__():
        yield child
        yield from subclasses(child)


def filled(path: str) -> str:
    return path.replace("{queue}", "0").replace("{ns}", "demo").replace("{", "").replace("}", "")


def django_paths(patterns: list[Any] | None = None, prefix: str = "/") -> Iterator[str]:
    """Every route of the URLconf, as the document writes paths."""
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        route = prefix + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(pattern.pattern))
        if isinstance(pattern, URLResolver):
            yield from django_paths(pattern.url_patterns, route)
        elif isinstance(pattern, URLPattern):
            yield route


def test_special_texts_are_those_of_fields_that_exist() -> None:
    schemas = openapi_document()["components"]["schemas"]

    shown = {
        (name, field): schemas[name]["properties"][field].get("description")
        for name, field in SPECIAL_TEXTS
    }

    assert shown == SPECIAL_TEXTS


def test_no_two_shapes_share_a_name() -> None:
    shapes: dict[str, set[str]] = {}
    for shape in subclasses(pydantic.BaseModel):
        if shape.__module__.startswith("mqservice.") and "." not in shape.__qualname__:
            shapes.setdefault(shape.__name__, set()).add(shape.__module__)
    shown = openapi_document()["components"]["schemas"]

    assert "PurgeIn" in shown
    assert {name: found for name, found in shapes.items() if name in shown and len(found) > 1} == {}


def test_times_say_that_they_are_times() -> None:
    untyped = [
        f"{name}.{field}"
        for name, schema in openapi_document()["components"]["schemas"].items()
        for field, prop in schema.get("properties", {}).items()
        if re.search(r"(^|_)(at|until|since|seen)$|^start_time$", field)
        and '"string"' in json.dumps(prop)
        and "date-time" not in json.dumps(prop)
    ]

    assert untyped == ["ReportListOut.at"]  # a time of day


def test_every_route_of_django_is_documented() -> None:
    documented = set(openapi_document()["paths"])
    missing = [
        path
        for path in django_paths()
        if not PAGES.fullmatch(path)
        and path != "/v1/"  # the framework's own root, which answers 404
        and ALIASES.get(path, path) not in documented
    ]
    assert missing == []


def test_methods_of_the_control_plane_are_those_of_its_views() -> None:
    served = {
        (method, f"/v1{path}")
        for _, router in api._routers
        for path, view in router.path_operations.items()
        for operation in view.operations
        for method in operation.methods
    }
    documented = {(method, path) for method, path, _ in operations()}
    assert served
    assert served <= documented


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.operation_id)
def test_path_of_an_operation_leads_to_it(operation: Any) -> None:
    match = plane.find_match(filled(operation.path))
    assert match is not None
    assert match.operation == operation.path


def test_everything_documented_is_served_and_asks_for_a_key(server: Server) -> None:
    wrong = []
    with httpx.Client(base_url=server.url, timeout=60) as http:
        for method, path, operation in operations():
            if path == SOCKET_PATH or operation.get("security") == []:
                continue
            for headers in ({}, {"authorization": "Bearer mqk_wrong"}, {"cookie": "mq_session=x"}):
                answer = http.request(method, filled(path), headers=headers)
                if (answer.status_code, answer.json()["code"]) != (401, "UNAUTHENTICATED"):
                    wrong.append((method, path, answer.text))
    assert wrong == []


def test_refusal_of_a_name_with_a_colon_is_documented(
    people: People, api: Callable[[str], Client]
) -> None:
    client = api(people.acme_key)
    for operation in OPERATIONS:
        for name in ("topic", "group", "message_id", "recall_handle"):
            path = operation.path.replace(f"{{{name}}}", "a:b")
            if path == operation.path or plane.find_match(filled(path)) is not None:
                continue
            answer = client.generic(operation.method, filled(path).replace("/demo/", "/acme/"))
            documented = openapi_document()["paths"][operation.path][operation.method.lower()]
            assert str(answer.status_code) in documented["responses"], path


@pytest.mark.parametrize("name", ["issues", "tasks"])
def test_a_page_after_something_unknown_is_documented(
    name: str, people: People, api: Callable[[str], Client]
) -> None:
    answer = api(people.acme_key).get(f"/v1/ns/acme/{name}?before=nothing")
    document = openapi_document()
    documented = document["paths"][f"/v1/ns/{{ns}}/{name}"]["get"]["responses"]
    reference = documented[str(answer.status_code)]["$ref"]
    response = document["components"]["responses"][reference.rpartition("/")[2]]
    rule = response["content"]["application/problem+json"]["schema"]["allOf"][1]["properties"]
    assert answer.json()["code"] in rule["code"]["enum"]


def test_what_asks_for_no_key_is_served_without_one(db: None, client: Client) -> None:
    open_paths = [path for _, path, each in operations() if each.get("security") == []]
    assert sorted(open_paths) == [
        "/healthz",
        "/llms.txt",
        "/readyz",
        "/v1/asyncapi.json",
        "/v1/invitations:accept",
        "/v1/openapi.json",
    ]
    open_paths.remove("/v1/invitations:accept")  # its token is what it asks for
    assert {path: client.get(path).status_code for path in open_paths} == {
        path: 503 if path == "/readyz" else 200 for path in open_paths
    }


def test_every_operation_says_what_it_is() -> None:
    found = list(operations())
    identities = [operation["operationId"] for _, _, operation in found]
    assert len(set(identities)) == len(identities)
    for _, path, operation in found:
        assert re.fullmatch(r"[a-z]+([A-Z][a-z]+)*", operation["operationId"])
        assert operation["summary"]
        assert len(operation["description"]) > 15, path
        assert len(operation["tags"]) == 1
        names = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
        assert names == set(re.findall(r"{(\w+)}", path))
        assert all(each.get("description") for each in operation["parameters"]), path
        assert any(status.startswith(("1", "2")) for status in operation["responses"])


def test_descriptions_tell_nothing_of_the_inside() -> None:
    text = openapi_json().decode()
    for word in ("queries", "``", "call to the engine", "PostgreSQL", "Valkey"):
        assert word not in text, word


def test_tags_are_described() -> None:
    described = {tag["name"] for tag in openapi_document()["tags"]}
    assert {operation["tags"][0] for _, _, operation in operations()} == described


def test_every_reference_leads_somewhere() -> None:
    document = openapi_document()
    references = set(re.findall(rb'"\$ref":"#/([^"]+)"', openapi_json()))
    assert references
    for reference in references:
        place: Any = document
        for name in reference.decode().split("/"):
            place = place[name]


def test_every_schema_is_one() -> None:
    for name, schema in openapi_document()["components"]["schemas"].items():
        jsonschema_rs.meta.validate({"$schema": SCHEMA_DIALECT, **schema})
        assert name


def test_examples_fit_their_schemas() -> None:
    wrong = []
    count = 0
    for media, where in _media():
        if "example" not in media:
            continue
        count += 1
        schema = {**media["schema"], "components": openapi_document()["components"]}
        validator = jsonschema_rs.validator_for({"$schema": SCHEMA_DIALECT, **schema})
        wrong += [f"{where}: {error}" for error in validator.iter_errors(media["example"])]
    assert count > 20
    assert wrong == []


def test_refusals_name_all_codes_and_no_others() -> None:
    named: set[str] = set()
    for response in openapi_document()["components"]["responses"].values():
        rule = response["content"]["application/problem+json"]["schema"]["allOf"][1]["properties"]
        codes = rule["code"]["enum"]
        named.update(codes)
        assert {CODES[code][0] for code in codes} == {rule["status"]["const"]}
    elsewhere = {
        "HEADERS_TOO_LARGE",  # before anything is known of the request
        "HTTP_VERSION_UNSUPPORTED",  # as above
        "LEASE_EXPIRED",  # of one receipt: in `failed`
        "PLAN_LIMIT",
    }
    assert CODES.keys() - named == elsewhere


def test_document_is_the_same_in_every_process() -> None:
    code = (
        "import os, django, hashlib\n"
        "os.environ['DJANGO_SETTINGS_MODULE'] = 'tests.settings'\n"
        "django.setup()\n"
        "from mqservice.reference.openapi import openapi_json\n"
        "from mqservice.reference.asyncapi import asyncapi_json\n"
        "print(hashlib.sha256(openapi_json() + asyncapi_json()).hexdigest())"
    )
    elsewhere = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "1"},  # here it is another one, by chance
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    here = hashlib.sha256(openapi_json() + asyncapi_json()).hexdigest()
    assert elsewhere.strip() == here


def test_examples_of_requests_are_taken(
    people: People, engine: str, api: Callable[[str], Client]
) -> None:
    client = api(people.acme_admin_key)
    names = {"ns": "acme", "topic": "orders", "group": "billing", "name": "late"}
    first = ["writeTopic", "writeGroup", "writeAlert", "writeSchedule", "importDefinitions"]
    by_id = {each["operationId"]: (method, path, each) for method, path, each in operations()}
    for identity in first + sorted(REQUESTS.keys() - set(first)):
        method, path, operation = by_id[identity]
        media = operation["requestBody"]["content"]["application/json"]
        answer = client.generic(
            method,
            path.format(**names),
            msgspec.json.encode(media["example"]),
            content_type="application/json",
        )
        assert answer.status_code in (200, 201), (identity, answer.content)


SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def _media() -> Iterator[tuple[JsonObject, str]]:
    for method, path, operation in operations():
        contents = [operation.get("requestBody", {}).get("content", {})]
        contents += [each.get("content", {}) for each in operation["responses"].values()]
        for content in contents:
            for name, media in content.items():
                yield media, f"{method} {path} {name}"
    for name, schema in openapi_document()["components"]["schemas"].items():
        if "example" in schema:
            yield {"schema": schema, "example": schema["example"]}, name


def test_document_is_json_of_ordinary_size() -> None:
    assert json.loads(openapi_json()) == openapi_document()
    assert len(openapi_json()) < 450_000
