"""Saved servers: an address, an API key and a namespace under a name, one of them current.

    mqservice login ─▶ save ─▶ $XDG_CONFIG_HOME/mqservice/profiles.json, mode 0600 ─▶ find_target

The file is replaced as a whole, so that a command never reads half of it.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Final

import msgspec

from mqservice.cli.errors import ClientError, UsageError

DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600
PROFILES_MAX: Final = 1_000
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A server and an identity on it. ``namespace`` is ``-`` for the key's own."""

    base_url: str
    api_key: str
    namespace: str = "-"


class Profiles(msgspec.Struct, kw_only=True):
    """``current`` is empty when none is."""

    current: str = ""
    profiles: dict[str, Profile] = {}

    def named(self, name: str) -> Profile:
        """Raises UsageError where there is none of that name."""
        found = self.profiles.get(name)
        if found is None:
            known = ", ".join(sorted(self.profiles)) or "none"
            raise UsageError(
                f"there is no profile {name!r} (saved: {known}); "
                f"save it with `mqservice login {name}`"
            )
        return found


def profiles_path() -> Path:
    """Where they are kept. Raises UsageError where there is no home directory."""
    # The specification: a relative path in the variable is to be ignored.
    named = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    try:
        base = named if named.is_absolute() else Path.home() / ".config"
    except RuntimeError as exc:
        raise UsageError(
            "there is no home directory to save profiles in: set XDG_CONFIG_HOME"
        ) from exc
    return base / "mqservice" / "profiles.json"


def load_profiles() -> Profiles:
    """What is saved; nothing where there is no file. Raises UsageError for a damaged file."""
    try:
        path = profiles_path()
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, PermissionError, UsageError):
        return Profiles()
    except OSError as exc:
        raise UsageError(f"cannot read {path}: {exc.strerror}") from exc
    try:
        return msgspec.json.decode(content, type=Profiles)
    except msgspec.DecodeError as exc:
        raise UsageError(f"cannot read {path}: {exc}; fix it or remove it") from exc


def save_profiles(profiles: Profiles) -> None:
    """Replace the file, for the user alone to read. Raises UsageError when it cannot be."""
    path = profiles_path()
    aside = path.with_name(f"{path.name}.{os.getpid()}.part")
    content = msgspec.json.format(msgspec.json.encode(profiles), indent=2) + b"\n"
    try:
        path.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        aside.unlink(missing_ok=True)
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as exc:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        raise UsageError(f"cannot write {path}: {(exc.strerror or str(exc)).lower()}") from exc


def check_name(name: str) -> str:
    """The name itself. Raises UsageError for one that no profile can have."""
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"{name!r} is not a valid profile name: use up to 64 letters, digits, . _ and -"
        )
    return name


def complete_names(incomplete: str) -> list[str]:
    """Names of saved profiles, for a shell; none where the file cannot be read."""
    try:
        saved = load_profiles()
    except ClientError:
        return []
    return [name for name in sorted(saved.profiles) if name.startswith(incomplete)]
