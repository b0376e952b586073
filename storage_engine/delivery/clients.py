"""Clients of broadcast groups: their ids, and the reader name that each one has.

    group acme%news, client 10.0.0.7@4711 ── [reader_name] ──▶ acme%news@10.0.0.7@4711

Each client of a broadcast group has progress like a group's, under this name. No name of a topic or
group holds an ``@``, so the first one ends the group's; RocketMQ's own client ids hold some. Pure.
"""

from __future__ import annotations

import re
from typing import Final

from storage_engine.errors import BadRequest

CLIENT_ID_CHARS_MAX: Final = 128
_SEPARATOR: Final = "@"
_FORM: Final = re.compile(rf"[a-zA-Z0-9._:@#-]{{1,{CLIENT_ID_CHARS_MAX}}}", re.ASCII)


def client_id_fault(client_id: str) -> str | None:
    """Why ``client_id`` is refused; None when it is fine."""
    if not client_id:
        return "a client id must not be empty"
    if len(client_id) > CLIENT_ID_CHARS_MAX:
        return f"a client id has at most {CLIENT_ID_CHARS_MAX} characters, found {len(client_id)}"
    if _FORM.fullmatch(client_id) is None:
        return "a client id may contain only letters, digits and the characters . _ : @ # -"
    return None


def check_client_id(client_id: str) -> None:
    """Raises ``BadRequest`` when it is none."""
    if fault := client_id_fault(client_id):
        raise BadRequest(fault)


def reader_name(group: str, client_id: str) -> str:
    """Whose progress it is: the client's, or without one the group's."""
    return f"{group}{_SEPARATOR}{client_id}" if client_id else group


def split_reader(name: str) -> tuple[str, str]:
    """(group, client id) of a reader; the latter is empty for a group itself."""
    group, _, client_id = name.partition(_SEPARATOR)
    return group, client_id
