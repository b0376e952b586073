"""Sessions of the console, in PostgreSQL. The module that ``SESSION_ENGINE`` names."""

from __future__ import annotations

from django.contrib.sessions.backends import db


class SessionStore(db.SessionStore):
    """A cookie that can be no session's key is nobody's: PostgreSQL takes no NUL in a text, and is
    not asked for it.
    """

    def _validate_session_key(self, key: str) -> bool:
        is_long_enough: bool = super()._validate_session_key(key)  # type: ignore[misc]  # Django's
        return is_long_enough and key.isascii() and key.isalnum()
