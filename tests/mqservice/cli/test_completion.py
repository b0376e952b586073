"""Completion as a real bash asks for it, and scripts for the other shells."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mqservice.cli.profiles import Profile, Profiles, save_profiles
from tests.mqservice.cli.commands import mqservice, run

ASK = """
source {script}
COMP_WORDS=({words}); COMP_CWORD={place}
_mqservice_completion {program}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def completed(directory: Path, *words: str) -> list[str]:
    """What bash offers for the last word."""
    script = directory / "completion.bash"
    script.write_bytes(run(("completion", "bash"), dict(os.environ)).out)
    program = directory / "mqservice"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m mqservice.cli.main "$@"\n')
    program.chmod(0o755)
    quoted = " ".join(f"'{word}'" for word in (program.name, *words))
    text = ASK.format(script=script, words=quoted, place=len(words), program=program)
    environ = {"PATH": os.environ["PATH"], "XDG_CONFIG_HOME": str(directory / "config")}
    done = subprocess.run(
        ["bash", "--norc", "-c", text], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("to",), {"topic"}),
        (("pro",), {"produce", "profile"}),
        (("topic", "s"), {"show"}),
        (("group", "la"), {"lag"}),
        (("topic", "create", "--dur"), {"--durability"}),
        (("topic", "create", "--durability", "a"), {"async"}),
        (("topic", "list", "-o", "nd"), {"ndjson"}),
        (("topic", "list", "--pro"), {"--profile"}),
        (("nothing", "x"), set()),
    ],
)
def test_bash_completes_commands_options_and_choices(
    tmp_path: Path, words: tuple[str, ...], expected: set[str]
) -> None:
    assert set(completed(tmp_path, *words)) == expected


@pytest.mark.parametrize("words", [("topic", "list", "--profile", "st"), ("profile", "use", "st")])
def test_bash_completes_names_of_saved_profiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    profile = Profile(base_url="https://mq.example.com", api_key="mqk_x", namespace="-")
    names = ("staging", "stage", "default")
    save_profiles(Profiles(profiles=dict.fromkeys(names, profile)))

    assert completed(tmp_path, *words) == ["stage", "staging"]


@pytest.mark.parametrize(("shell", "line"), [("zsh", "#compdef mqservice"), ("fish", "complete ")])
async def test_there_are_scripts_for_other_shells(shell: str, line: str) -> None:
    ended = await mqservice("completion", shell)
    assert ended.code == 0
    assert ended.out.decode().startswith(line)
    assert b"_MQSERVICE_COMPLETE" in ended.out


async def test_another_shell_is_refused_in_plain_words() -> None:
    ended = await mqservice("completion", "tcsh")
    assert ended.code == 2
    assert "'tcsh' must be one of bash, zsh, fish" in ended.line
