"""``mqservice completion``: the script that lets a shell complete commands, options and choices."""

from __future__ import annotations

import enum
from typing import Annotated, Final

import typer
from typer._completion_shared import get_completion_script

from mqservice.cli.lazy import COMPLETE_VARIABLE

PROGRAM: Final = "mqservice"


class Shell(enum.StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="Your shell.")]) -> None:
    """Print a script that completes commands in a shell.

    \b
      bash:  mqservice completion bash > ~/.local/share/bash-completion/completions/mqservice
      zsh:   mqservice completion zsh > "${fpath[1]}/_mqservice"
      fish:  mqservice completion fish > ~/.config/fish/completions/mqservice.fish
    """
    script = get_completion_script(
        prog_name=PROGRAM, complete_var=COMPLETE_VARIABLE, shell=shell.value
    )
    typer.echo(script)
