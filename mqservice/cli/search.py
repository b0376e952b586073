"""``mqservice search``: find messages by the text that the console's explorer takes.

mqservice search 'topic:orders key:order-42'        newest first
mqservice search 'group:billing reason:"timeout"'   dead letters
"""

from __future__ import annotations

from typing import Annotated

import typer

from mqservice.cli.browse import LIMIT_DEFAULT, show_pages
from mqservice.cli.client import RestClient
from mqservice.cli.outputs import FormOption, Output
from mqservice.cli.target import Target


async def search(
    target: Target,
    query: Annotated[
        str,
        typer.Argument(help="Tokens, such as: topic:orders tag:paid last:1h amount > 100."),
    ],
    oldest_first: Annotated[
        bool, typer.Option("--oldest-first", help="Show the oldest messages first.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-c", min=1, help="Stop after this many messages.")
    ] = LIMIT_DEFAULT,
    form: FormOption = Output.TABLE,
) -> int:
    """Search a topic, or the dead letters of a group, newest first."""
    asked = {"q": query} | ({"order": "oldest"} if oldest_first else {})
    async with RestClient(target) as client:
        return await show_pages(client.search, asked, limit, form)
