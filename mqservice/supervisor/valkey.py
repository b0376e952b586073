"""The embedded Valkey: Celery's broker and the carrier of wake-ups; append-only file on.

The configuration goes through standard input, so the password is on no command line. The server
runs in its own directory, for the reason given in ``postgres``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mqservice.supervisor.binaries import Account
from mqservice.supervisor.child import ChildSpec
from mqservice.supervisor.data_dir import close_to_others
from mqservice.supervisor.ports import LOOPBACK
from mqservice.supervisor.readiness import is_valkey_ready


def service_url(password: str, port: int) -> str:
    """Where the service finds the embedded server; kombu knows no valkey:// scheme."""
    return f"redis://:{password}@{LOOPBACK}:{port}/0"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValkeyServer:
    """One server with its files in ``directory``, listening on the loopback ``port``."""

    directory: Path
    port: int
    program: Path
    account: Account | None
    password: str
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return service_url(self.password, self.port)

    def prepare(self) -> None:
        """Makes the directory, owned by the server's account and closed to all others."""
        self.directory.mkdir(mode=0o700, exist_ok=True)
        if self.account is not None:
            os.chown(self.directory, self.account.uid, self.account.gid)
        owner = os.geteuid() if self.account is None else self.account.uid
        close_to_others(self.directory, owner=owner)

    def child_spec(self, env: Mapping[str, str]) -> ChildSpec:
        async def gate(pid: int) -> bool:
            return await is_valkey_ready(LOOPBACK, self.port, self.password)

        settings = {
            "bind": LOOPBACK,
            "port": str(self.port),
            "requirepass": self.password,
            "appendonly": "yes",
            "appendfsync": "everysec",
            # A broker that forgets tasks to make room would lose them without a word.
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
            **self.settings,
        }
        lines = "".join(f"{name} {value}\n" for name, value in settings.items())
        return ChildSpec(
            name="valkey",
            argv=(str(self.program), "-"),
            env={"PATH": env.get("PATH", os.defpath)},
            gate=gate,
            cwd=self.directory,
            account=self.account,
            stdin=lines.encode(),
            is_echoed=False,
        )
