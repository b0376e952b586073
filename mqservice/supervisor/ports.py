"""The TCP ports of the service: the public one, checked and reused; the internal ones, chosen once.

MQ_PORT ──▶ bind alone (is it free?) ──▶ hold a bound, silent SO_REUSEPORT socket while we run
ports.json ──▶ still free? ──▶ keep, else choose another and remember it
"""

from __future__ import annotations

import errno
import json
import socket
from pathlib import Path

from mqservice.supervisor.config import PORT_MAX
from mqservice.supervisor.data_dir import write_private
from mqservice.supervisor.errors import ConfigInvalid, PortTaken

LOOPBACK = "127.0.0.1"


def reserve_port(bind: str, port: int) -> socket.socket:
    """A socket that keeps ``port`` ours while web workers come and go; it never accepts anything.

    The workers bind the same port with SO_REUSEPORT, which the kernel allows to one user only. The
    first bind is made without that flag, since with it a second service of the same user would not
    be noticed.

    Raises PortTaken, or ConfigInvalid when the address is not one of this machine.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(bind, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ConfigInvalid(f"MQ_BIND={bind} is not an address of this machine: {error}") from error
    for is_kept in (False, True):
        holder = socket.socket(family, socket.SOCK_STREAM)
        if is_kept:
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        else:
            # Without this, connections of the last run that are still in TIME_WAIT would count.
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            holder.bind(address)
            if is_kept:
                return holder
            holder.listen(1)  # with SO_REUSEADDR only this step refuses a port that is listened on
        except OSError as error:
            holder.close()
            if error.errno == errno.EADDRNOTAVAIL:
                raise ConfigInvalid(f"MQ_BIND={bind} is not an address of this machine.") from error
            if isinstance(error, PermissionError):
                raise ConfigInvalid(
                    f"This user is not allowed to use port {port}. Set MQ_PORT to 1024 or higher."
                ) from error
            raise PortTaken(bind, port) from error
        holder.close()
    raise AssertionError("unreachable")


def choose_ports(path: Path, names: tuple[str, ...]) -> dict[str, int]:
    """Port of each name on the loopback address, as remembered in ``path`` while still free."""
    remembered = _read(path)
    chosen: dict[str, int] = {}
    for name in names:
        port = remembered.get(name)
        if port is None or port in chosen.values() or not is_port_free(port):
            port = find_free_port(excluded=frozenset(chosen.values()))
        chosen[name] = port
    if any(remembered.get(name) != port for name, port in chosen.items()):
        write_private(path, json.dumps({**remembered, **chosen}) + "\n")
    return chosen


def remembered_ports(path: Path) -> dict[str, int]:
    """Of the last start; empty where there was none."""
    return _read(path)


def is_port_free(port: int) -> bool:
    """Whether a server could listen on the loopback ``port`` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
        return True


def find_free_port(*, excluded: frozenset[int] = frozenset()) -> int:
    """A loopback port that nobody uses at this moment."""
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind((LOOPBACK, 0))
            port: int = probe.getsockname()[1]
        if port not in excluded:
            return port


def _read(path: Path) -> dict[str, int]:
    """What is remembered; a damaged file is worth no more than a missing one."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(content, dict):
        return {}
    return {
        str(name): port
        for name, port in content.items()
        if isinstance(port, int) and 0 < port <= PORT_MAX
    }
