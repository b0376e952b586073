"""Secrets that the first start creates and later starts reuse; stored in one private file.

no file ──▶ random ──▶ secrets.toml (0600) ──▶ environment of the children
"""

from __future__ import annotations

import os
import secrets
import stat
import tomllib
from pathlib import Path

import msgspec

from mqservice.lib.api_keys import generate_api_key
from mqservice.supervisor.data_dir import write_private
from mqservice.supervisor.errors import ConfigInvalid


class Secrets(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All values are printable ASCII without quotes, so they need no escaping anywhere."""

    django_key: str
    postgres_admin_password: str
    postgres_password: str
    valkey_password: str
    admin_password: str
    api_key: str


def load_or_create_secrets(path: Path) -> Secrets:
    """Reads ``path`` or, on the first start, makes it.

    Raises ConfigInvalid when the file cannot be read, is open to others, or has other content.
    """
    if not path.exists():
        made = Secrets(
            django_key=secrets.token_hex(32),
            postgres_admin_password=secrets.token_hex(16),
            postgres_password=secrets.token_hex(16),
            valkey_password=secrets.token_hex(16),
            admin_password=secrets.token_urlsafe(12),
            api_key=generate_api_key(),
        )
        lines = [f'{name} = "{value}"' for name, value in msgspec.structs.asdict(made).items()]
        head = "# Created at the first start. Whoever can read this file has full access."
        write_private(path, "\n".join([head, *lines, ""]))
        return made
    try:
        with path.open("rb") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise ConfigInvalid(f"other users can read {path}; run: chmod 600 {path}")
            return msgspec.convert(tomllib.load(file), Secrets)
    except (OSError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigInvalid(f"cannot use {path}: {error}") from error
