"""Emails as files, for an installation without a mail server. They contain links that set
passwords.
"""

from __future__ import annotations

import os
from typing import Any

from django.core.mail.backends.filebased import EmailBackend


class PrivateFiles(EmailBackend):
    """Django's, with files and their directory for the service's account alone."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # Any: Django's own signature
        super().__init__(*args, **kwargs)
        os.chmod(self.file_path, 0o700)

    def open(self) -> bool:
        if not super().open():
            return False
        os.fchmod(self.stream.fileno(), 0o600)
        return True
