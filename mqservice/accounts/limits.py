"""Maximum counts and lengths of what a tenant has."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

PAGE_MAX: Final = 100
KEYS_MAX: Final = 1_000  # of one tenant that are not revoked
REVOKED_KEYS_MAX: Final = 1_000  # of one tenant that are revoked; the oldest are forgotten
KEY_NAME_CHARS_MAX: Final = 80
NAMESPACES_MAX: Final = 1_000  # of one tenant
MEMBERS_MAX: Final = 1_000  # of one tenant
INVITATIONS_MAX: Final = 200  # of one tenant that are open
PAST_INVITATIONS_MAX: Final = 1_000  # of one tenant that are over; the oldest are forgotten
ATTEMPTS_MAX: Final = 10  # to accept an invitation; more end it

OVERLAP_DEFAULT: Final = timedelta(days=1)
OVERLAP_MAX: Final = timedelta(days=30)
KEY_LIFE_MAX: Final = timedelta(days=3_650)
INVITATION_LIFE_DEFAULT: Final = timedelta(days=7)
INVITATION_LIFE_MAX: Final = timedelta(days=30)
