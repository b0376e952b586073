"""Emails as files, for an installation without a mail server. They contain links that set
passwords.
"""

from __future__ import annotations

import os
from typing import Any

from django.core.mail import EmailMessage
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

    def write_message(self, message: EmailMessage) -> None:
        """As plain text to read: the encoding for mail servers cuts links in two."""
        headers = [
            f"{name}: {value}"
            for name, value in message.message().items()
            if not name.startswith(("Content-", "MIME-"))
        ]
        lines = [*headers, "", str(message.body), "", "-" * 79, ""]
        self.stream.write("\n".join(lines).encode())  # type: ignore[arg-type]  # it is binary
