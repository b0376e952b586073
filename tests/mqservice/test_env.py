"""Settings from the environment: bad values end the start with a sentence that names them."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from mqservice.env import (
    envbool,
    envint,
    envissuer,
    envlist,
    envports,
    envsecret,
    envtext,
    envurl,
)

NAME = "MQ_TEST_VALUE"


def test_missing_value_without_default_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAME, raising=False)
    with pytest.raises(ImproperlyConfigured, match="MQ_TEST_VALUE must be set"):
        envtext(NAME)
    assert envtext(NAME, "x") == "x"


@pytest.mark.parametrize(("text", "value"), [("1", True), ("Yes", True), ("off", False)])
def test_claims_are_read(monkeypatch: pytest.MonkeyPatch, text: str, value: bool) -> None:
    monkeypatch.setenv(NAME, text)
    assert envbool(NAME, not value) is value


def test_claim_with_another_word_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "maybe")
    with pytest.raises(ImproperlyConfigured, match=NAME):
        envbool(NAME, True)


@pytest.mark.parametrize("text", ["x", "1.5", "0", "11"])
def test_number_outside_its_range_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(NAME, text)
    with pytest.raises(ImproperlyConfigured, match=NAME):
        envint(NAME, 5, minimum=1, maximum=10)


def test_list_is_split_at_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "a, b,,c")
    assert envlist(NAME, []) == ["a", "b", "c"]


def test_ports_are_read_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAME, raising=False)
    assert envports(NAME) == {}
    monkeypatch.setenv(NAME, "s2=9101, s3=65535")
    assert envports(NAME) == {"s2": 9_101, "s3": 65_535}


@pytest.mark.parametrize("text", ["s2", "s2=", "=1", "s2=0", "s2=65536", "s2=-1", "s2=x", "s2=٣"])
def test_ports_that_are_none_are_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(NAME, text)
    with pytest.raises(ImproperlyConfigured, match=NAME):
        envports(NAME)


def test_short_secret_is_refused_without_being_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "hunter2")
    with pytest.raises(ImproperlyConfigured, match="at least 32") as caught:
        envsecret(NAME, chars_min=32)
    assert "hunter2" not in str(caught.value)


def test_secret_may_come_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("from a file\n", encoding="utf-8")
    monkeypatch.setenv(f"{NAME}_FILE", str(path))
    assert envsecret(NAME, chars_min=1) == "from a file"
    monkeypatch.setenv(f"{NAME}_FILE", str(tmp_path / "absent"))
    with pytest.raises(ImproperlyConfigured, match=f"cannot read {NAME}_FILE"):
        envsecret(NAME, chars_min=1)


@pytest.mark.parametrize("text", ["mysql://h/db", "postgresql://u:hunter2@h:port/db", "nothing"])
def test_url_of_another_form_is_refused_without_being_told(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv(NAME, text)
    with pytest.raises(ImproperlyConfigured, match=NAME) as caught:
        envurl(NAME, "postgresql")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "https://id.example", "https://id.example/realms/a/", "http://localhost:8080/a"]
)
def test_issuer_is_taken_as_its_provider_writes_it(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv(NAME, text)
    assert envissuer(NAME) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("id.example", "must start with"),
        ("http://id.example", "https://"),
        ("http://localhost.evil.example", "https://"),
        ("https://", "has no host"),
        ("https://user:hunter2@id.example", "without user"),
        ("https://id.example/?realm=a", "without user, query"),
        ("https://id.example/#a", "without user, query"),
    ],
)
def test_issuer_over_which_others_could_speak_is_refused(
    monkeypatch: pytest.MonkeyPatch, text: str, reason: str
) -> None:
    monkeypatch.setenv(NAME, text)
    with pytest.raises(ImproperlyConfigured, match=reason) as caught:
        envissuer(NAME)
    assert "hunter2" not in str(caught.value)
