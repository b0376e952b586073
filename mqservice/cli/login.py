"""``mqservice login``: save a server's address and API key under a name, after the server accepted
them.

prompt or stdin ─▶ the key ─▶ a request to the server ─▶ profiles.json (mode 0600)
"""

from __future__ import annotations

import sys
from getpass import getpass
from typing import Annotated, Final

import typer

from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.errors import ClientError, RequestRejected, UsageError
from mqservice.cli.profiles import (
    PROFILES_MAX,
    Profile,
    check_name,
    load_profiles,
    profiles_path,
    save_profiles,
)
from mqservice.cli.target import BASE_URL_DEFAULT, Target, check_base_url, check_key

FORBIDDEN: Final = 403
KEY_CHARS_MAX: Final = 4_096


def login(
    name: Annotated[
        str, typer.Argument(help="Name for this server, used with --profile and `profile use`.")
    ] = "default",
    base_url: Annotated[
        str, typer.Option("--base-url", metavar="URL", help="Address of the server.")
    ] = BASE_URL_DEFAULT,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", help="Namespace; by default that of the key."),
    ] = None,
) -> None:
    """Save a server's address and API key as a profile, and use it from now on.

    The key is asked for, or read from standard input when that is no terminal. It is tried on the
    server first, and saved in a file that only you can read.

    \b
    Examples:
      mqservice login --base-url https://mq.example.com
      mqservice login staging --base-url https://staging.example.com < key.txt
    """
    try:
        check_name(name)
        check_base_url(base_url)
        saved = load_profiles()
        if len(saved.profiles) >= PROFILES_MAX and name not in saved.profiles:
            raise UsageError(
                f"{PROFILES_MAX:,} profiles are saved, which is the limit; remove one first"
            )
        key = _read_key(base_url)
        check_key(key)
    except ClientError as exc:
        screen.fail(exc)
    target = Target(base_url=base_url.rstrip("/"), key=key, namespace=namespace or "-")
    screen.run(_login(name, target))


def _read_key(base_url: str) -> str:
    """From a prompt that shows nothing, or the first line of standard input."""
    if sys.stdin.isatty():
        key = getpass(f"API key for {base_url}: ")
    else:
        key = sys.stdin.readline(KEY_CHARS_MAX)
    key = key.strip()
    if not key:
        raise UsageError("no API key was given: type it, or pass it on standard input")
    return key


async def _login(name: str, target: Target) -> int:
    await _try(target)
    saved = load_profiles()
    saved.profiles[name] = Profile(
        base_url=target.base_url, api_key=target.key, namespace=target.namespace
    )
    saved.current = name
    save_profiles(saved)
    screen.notice(
        f"{target.base_url} accepted the key; profile {name} is saved in {profiles_path()} and in "
        "use from now on"
    )
    return 0


async def _try(target: Target) -> None:
    """Raises what the server says to a key that it does not know, or to a wrong namespace.

    A key need not be allowed to list topics, and one for all namespaces has none of its own.
    """
    async with RestClient(target) as client:
        try:
            await client.call("GET", "topics?limit=1")
        except RequestRejected as exc:
            is_unbound = target.namespace == "-" and exc.code in _NO_NAMESPACE
            if exc.status != FORBIDDEN and not is_unbound:
                raise


_NO_NAMESPACE: Final = ("NAMESPACE_NOT_FOUND", "BAD_REQUEST")
