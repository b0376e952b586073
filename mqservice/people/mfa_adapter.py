"""Our rules for allauth's second factors: their secrets are encrypted in the database.

A secret of TOTP is needed as it is, so that it cannot be a MAC as those of keys; the key it is
encrypted with comes from ``MQ_SECRET_KEY``, which is not in the database.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode

from allauth.mfa.adapter import DefaultMFAAdapter
from cryptography.fernet import Fernet, MultiFernet
from django.conf import settings

from mqservice.lib.signing import derive_key


class MfaAdapter(DefaultMFAAdapter):  # type: ignore[misc]  # allauth has no types
    """See the module's docstring."""

    def encrypt(self, text: str) -> str:
        return _box().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        return _box().decrypt(encrypted_text.encode()).decode()


def _box() -> MultiFernet:
    """Encrypts with the present secret; reads what former ones wrote too."""
    secrets = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return MultiFernet(
        [Fernet(urlsafe_b64encode(derive_key(each, "second factors"))) for each in secrets]
    )
