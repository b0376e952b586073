"""``mqservice invitation``: invite users to the tenant, list and withdraw invitations.

create ─▶ stdout: the link to send, which is shown this once; all else on stderr
list ───▶ stdout: a table, or NDJSON
"""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import quote

import msgspec
import typer

from mqservice.accounts.settings import INVITATION
from mqservice.cli import screen
from mqservice.cli.client import RestClient
from mqservice.cli.errors import ResponseMalformed
from mqservice.cli.outputs import FormOption, Output, prints
from mqservice.cli.setting_options import Body, takes_settings
from mqservice.cli.tables import Table
from mqservice.cli.target import TenantTarget

app = typer.Typer(no_args_is_help=True, help="Invite users, list and withdraw invitations.")

_PATH: Final = "/v1/invitations"


class Invitation(msgspec.Struct, kw_only=True):
    """``link`` is there when it has just been made."""

    id: str
    email: str
    role: str
    state: str
    invited_by: str
    created_at: str
    expires_at: str
    link: str | None = None


@app.command("create")
@takes_settings(INVITATION[1:])
async def create(
    body: Body,
    target: TenantTarget,
    email: Annotated[
        str, typer.Argument(help="Email address of the user to invite; the service sends no email.")
    ],
) -> int:
    """Invite a user and print the link to send. It is shown only once."""
    order = {"email": email, "role": "developer", **body}
    async with RestClient(target) as client:
        content = msgspec.json.encode(order)
        made = await client.call("POST", _PATH, Invitation, content=content)
    if made.link is None:
        raise ResponseMalformed("the response has no link")
    screen.notice(f"invitation {made.id} for {made.email} is valid until {made.expires_at}")
    typer.echo(made.link)
    return 0


@app.command("list")
async def list_invitations(target: TenantTarget, form: FormOption = Output.TABLE) -> int:
    """List invitations, including expired ones."""
    async with RestClient(target) as client:
        found = await client.all_pages(_PATH, "invitations", Invitation)
    if prints(form, found):
        return 0
    table = Table("id", "email", "role", "state", "invited by", "until")
    for each in found:
        email, inviter = (
            screen.without_controls(each.email),
            screen.without_controls(each.invited_by),
        )
        table.add_row(each.id, email, each.role, each.state, inviter, each.expires_at)
    screen.show(table)
    return 0


@app.command("revoke")
async def revoke(
    target: TenantTarget,
    invitation_id: Annotated[str, typer.Argument(metavar="ID", help="ID, as shown by list.")],
) -> int:
    """Withdraw an open invitation."""
    async with RestClient(target) as client:
        await client.call("DELETE", f"{_PATH}/{quote(invitation_id, safe='')}")
    screen.notice(f"invitation {invitation_id} was withdrawn")
    return 0
