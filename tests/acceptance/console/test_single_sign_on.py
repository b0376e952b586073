"""Signing in through Keycloak, which others have written, in a real browser, the whole service.

What a provider may say besides is in tests/mqservice/people/test_single_sign_on.py.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.console.keycloak_program import (
    CLIENT_ID,
    CLIENT_SECRET,
    PASSWORD,
    Keycloak,
    running_keycloak,
)
from tests.services import PROGRAM, Service, running_service, service_environment
from tests.storage_engine.faults.machine import need_chromium, need_keycloak

pytestmark = [pytest.mark.torture, pytest.mark.acceptance, pytest.mark.timeout(900)]
New = Callable[..., Page]
ALICE: Final = {"email": "alice@x.example", "emailVerified": True}


@pytest.fixture(scope="module")
def keycloak() -> Iterator[Keycloak]:
    need_chromium()
    need_keycloak()
    with running_keycloak() as running:
        yield running


@pytest.fixture(scope="module")
def service(keycloak: Keycloak, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One that knows the provider, and alice, who owns a tenant."""
    data_dir = tmp_path_factory.mktemp("single-sign-on") / "data"
    settings = {
        "MQ_OIDC_ISSUER": keycloak.issuer,
        "MQ_OIDC_CLIENT_ID": CLIENT_ID,
        "MQ_OIDC_CLIENT_SECRET": CLIENT_SECRET,
        "MQ_OIDC_NAME": "Keycloak",
        "MQ_SIGN_UP": "open",
    }
    with running_service(data_dir, **settings) as running:
        base_url = running.facts.base_url
        keycloak.create_realm(f"{base_url}/account/single-sign-on/callback/")
        keycloak.create_user("alice", **ALICE)
        owner = ["admin", "create-owner", "alice", "--tenant", "acme", "--email", ALICE["email"]]
        subprocess.run(
            [*PROGRAM, *map(str, owner)],
            env=service_environment(data_dir, **settings), check=True, capture_output=True,
        )  # fmt: skip
        yield running


@pytest.fixture
def visitor(new_page: New) -> Callable[[], Page]:
    """A browser in which nobody is signed in, neither here nor at the provider."""
    return lambda: new_page(storage_state=None)


Visitor = Callable[[], Page]


def leave_for_provider(page: Page) -> None:
    page.goto("/account/login/")
    page.get_by_role("link", name="Sign in with Keycloak").click()


def sign_in(page: Page, name: str) -> None:
    leave_for_provider(page)
    page.get_by_label("Username or email").fill(name)
    page.get_by_role("textbox", name="Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign In").click()


def expect_console(page: Page) -> None:
    page.wait_for_url("**/console/acme/**")
    expect(page.get_by_label("Menu of alice")).to_be_visible()


def test_owner_signs_in_and_again_when_the_signing_key_has_changed(
    visitor: Visitor, keycloak: Keycloak
) -> None:
    page = visitor()
    sign_in(page, "alice")
    expect_console(page)
    page.goto("/account/")
    expect(page.get_by_text("Linked to alice@x.example.")).to_be_visible()
    keycloak.add_signing_key("RS256")
    later = visitor()
    sign_in(later, "alice")
    expect_console(later)


@pytest.mark.parametrize("algorithm", ["ES256", "PS256", "EdDSA"])
def test_tokens_may_be_signed_by_other_algorithms(
    visitor: Visitor, keycloak: Keycloak, algorithm: str
) -> None:
    keycloak.add_signing_key(algorithm)
    keycloak.change_client({"id.token.signed.response.alg": algorithm})
    page = visitor()
    sign_in(page, "alice")
    expect_console(page)
    keycloak.change_client({"id.token.signed.response.alg": "RS256"})


def test_signing_out_ends_the_session_here_and_not_that_at_the_provider(
    visitor: Visitor, keycloak: Keycloak
) -> None:
    page = visitor()
    sign_in(page, "alice")
    expect_console(page)
    page.get_by_label("Menu of alice").click()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/account/login/**")
    page.goto("/console/acme/topics")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    leave_for_provider(page)
    expect_console(page)


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ({"email": "unverified@x.example"}, "says that your email address is not verified"),
        ({}, "did not send your email address"),
    ],
    ids=["unverified", "without-address"],
)
def test_user_who_may_not_is_told_why(
    visitor: Visitor,
    keycloak: Keycloak,
    faults: list[str],
    request: pytest.FixtureRequest,
    user: dict[str, object],
    words: str,
) -> None:
    name = request.node.callspec.id
    keycloak.create_user(name, **user)
    page = visitor()
    sign_in(page, name)
    expect(page.get_by_role("alert")).to_contain_text(words)
    page.goto("/console/")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    take_refusals(faults)


def test_user_without_a_password_here_confirms_by_signing_on_again(
    visitor: Visitor, keycloak: Keycloak
) -> None:
    keycloak.create_user("newcomer", email="newcomer@x.example", emailVerified=True)
    page = visitor()
    sign_in(page, "newcomer")
    page.wait_for_url("**/account/start/")
    page.goto("/account/password/set/")
    page.get_by_role("link", name="Sign in with Keycloak again").click()
    # Its own session is not enough for Keycloak.
    page.get_by_role("textbox", name="Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign In").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Set a password")


def test_user_whom_the_provider_has_disabled_stays_there_and_keeps_the_session_here(
    visitor: Visitor, keycloak: Keycloak, faults: list[str]
) -> None:
    page = visitor()
    sign_in(page, "alice")
    expect_console(page)
    keycloak.change_user("alice", enabled=False)
    later = visitor()
    sign_in(later, "alice")
    expect(later.get_by_text("Account is disabled")).to_be_visible()
    page.goto("/console/acme/topics")
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    keycloak.change_user("alice", enabled=True)
    take_refusals(faults)


def test_user_who_does_not_consent_is_back_and_may_start_again(
    visitor: Visitor, keycloak: Keycloak, faults: list[str]
) -> None:
    keycloak.change_client({}, consentRequired=True)
    page = visitor()
    sign_in(page, "alice")
    page.get_by_role("button", name="No").click()
    expect(page.get_by_role("alert")).to_contain_text("refused to sign you in, or you cancelled")
    sign_in(page, "alice")
    page.get_by_role("button", name="Yes").click()
    expect_console(page)
    keycloak.change_client({}, consentRequired=False)
    take_refusals(faults)


def take_refusals(faults: list[str]) -> None:
    """Out of the faults: a page that refuses has a status that says so."""
    faults[:] = [each for each in faults if not re.search("status of 40[03]", each)]
