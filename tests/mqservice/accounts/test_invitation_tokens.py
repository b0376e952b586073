"""Tokens of invitations outlive the pepper that they were stored under, if that is named still."""

from __future__ import annotations

from pytest_django import Settings

from mqservice.accounts.invitation_tokens import new_token

ANOTHER = "another pepper of at least 32 characters"


def test_a_token_fits_what_was_kept_under_the_pepper_or_a_former_one(settings: Settings) -> None:
    token, kept = new_token(), []
    kept.append(token.mac)
    settings.MQ_KEY_PEPPER_FALLBACKS = [settings.MQ_KEY_PEPPER]
    settings.MQ_KEY_PEPPER = ANOTHER
    kept.append(token.mac)
    assert [token.matches(mac) for mac in kept] == [True, True]
    assert [new_token().matches(mac) for mac in kept] == [False, False]
    settings.MQ_KEY_PEPPER_FALLBACKS = []
    assert [token.matches(mac) for mac in kept] == [False, True]
