"""``mqservice key``: create, list, show, change, rotate and revoke API keys.

create, rotate ─▶ stdout: the key's text, which is shown this once; all else on stderr. Of an access
                  key that is two lines, as an environment file has them
list, show ─────▶ stdout: a table, or NDJSON
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final
from urllib.parse import quote

import msgspec
import typer

from mqservice.accounts.settings import KEY_CHANGE, NEW_KEY, KeyKind
from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.errors import ResponseMalformed
from mqservice.cli.options import asks
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.setting_options import Body, takes_settings
from mqservice.cli.tables import Table
from mqservice.cli.target import Target, TenantTarget

app = typer.Typer(no_args_is_help=True, help="Create, list, change, rotate and revoke API keys.")

_PATH: Final = "/v1/keys"

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="ID of the key, as shown by list.")]


class ApiKey(msgspec.Struct, kw_only=True):
    """A key as the service shows it; ``key`` is there when it has just been made."""

    id: str
    kind: KeyKind = KeyKind.API
    name: str
    namespace: str | None
    role: str
    scopes: list[str]
    state: str
    last4: str
    needs_former_pepper: bool = False
    created_at: str
    expires_at: str | None
    last_used_at: str | None
    key: str | None = None


@app.command("create")
@takes_settings(NEW_KEY[1:])
def create(
    body: Body,
    target: TenantTarget,
    name: Annotated[str, typer.Argument(help="Name of the key, such as what it is for.")],
) -> None:
    """Create a key and print it. It is shown only once."""
    order = {"name": name, "scopes": [], **body}
    screen.run(_make(target, _PATH, order, "was created"))


@app.command("list")
async def list_keys(target: TenantTarget, form: FormOption = Output.TABLE) -> int:
    """List all keys, including revoked ones."""
    async with RestClient(target) as client:
        keys = await client.all_pages(_PATH, "keys", ApiKey)
    _print(keys, form=form)
    return 0


@app.command("show")
async def show(target: TenantTarget, key_id: IdArgument, form: FormOption = Output.TABLE) -> int:
    """Show one key, without its secret."""
    async with RestClient(target) as client:
        _print([await client.call("GET", _path(key_id), ApiKey)], form=form)
    return 0


@app.command("update")
@takes_settings(KEY_CHANGE)
async def update(body: Body, target: TenantTarget, key_id: IdArgument) -> int:
    """Change a key; what is not given is left unchanged. Given scopes replace the old ones."""
    async with RestClient(target) as client:
        content = msgspec.json.encode(body)
        changed = await client.call("PATCH", _path(key_id), ApiKey, content=content)
    screen.notice(f"key {changed.id} ({changed.name}) now has the scopes: {_scopes(changed)}")
    return 0


@app.command("rotate")
def rotate(
    target: TenantTarget,
    key_id: IdArgument,
    overlap: Annotated[
        str,
        typer.Option(
            "--overlap", help="How long the old secret stays valid; 0s revokes it immediately."
        ),
    ] = "1d",
) -> None:
    """Give a key a new secret and print the key with it. It is shown only once."""
    screen.run(_make(target, f"{_path(key_id)}:rotate", {"overlap": overlap}, "has a new secret"))


@app.command("revoke")
@asks("Revoke the key {key_id} permanently?")
async def revoke(target: TenantTarget, key_id: IdArgument) -> int:
    """Revoke a key permanently, and close its open sockets and polls."""
    async with RestClient(target) as client:
        ended = await client.call("POST", f"{_path(key_id)}:revoke", ApiKey)
    screen.notice(f"key {ended.id} ({ended.name}) was revoked")
    return 0


async def _make(target: Target, path: str, order: Mapping[str, object], done: str) -> int:
    async with RestClient(target) as client:
        made = await client.call("POST", path, ApiKey, content=msgspec.json.encode(order))
    if made.key is None:
        raise ResponseMalformed("the response has no key")
    screen.notice(f"key {made.id} ({made.name}) {done}; it is shown only once")
    if made.kind is KeyKind.ACCESS:
        typer.echo(f"AWS_ACCESS_KEY_ID={made.id}\nAWS_SECRET_ACCESS_KEY={made.key}")
    else:
        typer.echo(made.key)
    return 0


def _print(keys: list[ApiKey], *, form: Output) -> None:
    if prints(form, keys):
        return
    table = Table(
        "id", "kind", "name", "namespace", "role", "scopes", "state", "until", "last used"
    )
    for each in keys:
        table.add_row(
            each.id,
            each.kind,
            screen.without_controls(each.name),
            each.namespace or "all",
            each.role,
            _scopes(each),
            f"{each.state}, former pepper" if each.needs_former_pepper else each.state,
            each.expires_at or "-",
            each.last_used_at or "-",
        )
    screen.show(table)


def _scopes(key: ApiKey) -> str:
    return ", ".join(key.scopes) or "-"


def _path(key_id: str) -> str:
    return f"{_PATH}/{quote(key_id, safe='')}"
