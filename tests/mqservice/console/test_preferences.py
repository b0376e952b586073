"""Theme and language: kept in cookies, for everybody, and open to nobody's tricks."""

from __future__ import annotations

import pytest
from django.test import Client

from mqservice.console.translations import LANGUAGES, compiled, entries
from tests.people import People

PREFERENCES = "/console/preferences"


def test_theme_is_kept_and_shown_before_someone_signs_in(db: None, client: Client) -> None:
    assert b"data-theme" not in client.get("/account/login/").content
    answer = client.post(PREFERENCES, {"theme": "dark", "next": "/account/login/"})
    assert answer.headers["Location"] == "/account/login/"
    assert answer.cookies["mq_theme"]["httponly"]
    assert b'data-theme="dark"' in client.get("/account/login/").content
    client.post(PREFERENCES, {"theme": "system"})
    assert b"data-theme" not in client.get("/account/login/").content


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example", "javascript:1", ""])
def test_address_of_someone_else_is_not_led_to(db: None, client: Client, target: str) -> None:
    answer = client.post(PREFERENCES, {"theme": "dark", "next": target})
    assert answer.headers["Location"] == "/console/"


def test_unknown_choice_and_forged_cookie_change_nothing(db: None, client: Client) -> None:
    answer = client.post(PREFERENCES, {"theme": "<b>", "language": "xx"})
    assert not answer.cookies
    client.cookies["mq_theme"] = '"><script>'
    assert b"data-theme" not in client.get("/account/login/").content


def test_pages_are_in_the_language_that_was_chosen_and_the_api_is_not(
    people: People, client: Client
) -> None:
    client.force_login(people.alice)
    client.post(PREFERENCES, {"language": "zh-hans"})
    answer = client.get("/console/acme/topics")
    assert '<html lang="zh-hans"' in answer.content.decode()
    assert "还没有主题" in answer.content.decode()
    api = client.get("/v1/ns/acme/topics", headers={"accept-language": "zh-hans"})
    assert "Content-Language" not in api
    assert api.json()["detail"].startswith("send a valid API key")


def test_browser_says_which_language_until_someone_chooses(db: None, client: Client) -> None:
    chinese = client.get("/account/login/", headers={"accept-language": "zh-CN,zh;q=0.9"})
    assert '<html lang="zh-hans"' in chinese.content.decode()
    french = client.get("/account/login/", headers={"accept-language": "fr"})
    assert '<html lang="en"' in french.content.decode()


@pytest.mark.parametrize("language", LANGUAGES)
def test_compiled_texts_are_those_of_the_source_and_none_is_missing(language: str) -> None:
    source, catalogue = entries(language), compiled(language)
    assert len(source) > 200
    stale = [
        text
        for text, said in source.items()
        if said[0] not in (catalogue.gettext(text), catalogue.ngettext(text, text, 2))
    ]
    assert stale == [], "run `python -m mqservice.console.translations`"
    assert [text for text, said in source.items() if not all(said)] == []
