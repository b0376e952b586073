"""Mails without a mail server: for nobody else on the machine, and plain to read."""

from __future__ import annotations

import stat
from pathlib import Path

from django.core.mail import EmailMessage, get_connection
from pytest_django import Settings

BACKEND = "mqservice.lib.mail_files.PrivateFiles"


def test_mails_and_their_directory_are_private(tmp_path: Path, settings: Settings) -> None:
    place = tmp_path / "mail"
    place.mkdir(mode=0o755)
    settings.EMAIL_FILE_PATH = str(place)
    connection = get_connection(BACKEND)
    mails = [EmailMessage("s", f"body {n}", "a@x.example", ["b@x.example"]) for n in (1, 2)]
    assert connection.send_messages(mails) == 2
    (file,) = place.iterdir()
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "body 1" in file.read_text()
    assert "body 2" in file.read_text()


def test_a_link_is_in_the_file_as_it_must_be_opened(tmp_path: Path, settings: Settings) -> None:
    settings.EMAIL_FILE_PATH = str(tmp_path)
    # Django encodes a body for mail servers from lines of 79 or of 999 bytes on, by its version.
    link = f"http://127.0.0.1:8000/account/password/reset/key/{'x' * 1000}/?next=%2Fconsole%2F"
    mail = EmailMessage("Prüfung", f"Öffnen: {link}\n", "a@x.example", ["b@x.example"])
    assert get_connection(BACKEND).send_messages([mail]) == 1
    (file,) = tmp_path.iterdir()
    assert f"Öffnen: {link}\n" in file.read_text()
    assert "To: b@x.example\n" in file.read_text()
