"""How long a password must be, said in the reader's language: Django's words for it have no
Chinese.
"""

from __future__ import annotations

from django.contrib.auth.password_validation import MinimumLengthValidator
from django.utils.translation import ngettext


class LengthValidator(MinimumLengthValidator):
    """Django's own, with our words."""

    def get_error_message(self) -> str:
        return ngettext(
            "This password is too short. It must contain at least %(n)d character.",
            "This password is too short. It must contain at least %(n)d characters.",
            self.min_length,
        ) % {"n": self.min_length}
