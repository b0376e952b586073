"""Signing in with a name or an address and a password: one hash, whoever is or is not here."""

from __future__ import annotations

from typing import Any

from allauth.account.auth_backends import AuthenticationBackend
from django.contrib.auth.base_user import AbstractBaseUser
from django.http import HttpRequest

from mqservice.people.same_work import users_of


class PasswordBackend(AuthenticationBackend):  # type: ignore[misc]  # allauth has no types
    """See the module's docstring."""

    def _authenticate(
        self, request: HttpRequest | None, **credentials: Any
    ) -> AbstractBaseUser | None:  # Any: as allauth has it
        """An address comes as a name too. Looked up as both, a known one would cost two hashes."""
        if credentials.get("email") == credentials.get("username"):
            credentials.pop("email", None)
        found: AbstractBaseUser | None = super()._authenticate(request, **credentials)
        return found

    def _authenticate_by_email(self, email: str, password: str) -> AbstractBaseUser | None:
        for user in users_of(email):
            if self._check_password(user, password):
                return user
        return None
