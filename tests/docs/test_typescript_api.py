"""The TypeScript client's reference leaves nothing public out, and explains each of its parts."""

from __future__ import annotations

import re

import pytest

from tests.clients.typescript.package import SOURCE
from tests.docs.typescript_api import ERRORS, MESSAGES, declarations

# What types say, what only the client itself makes, and what stands for the platform's own.
LEFT_OUT = {
    "JsonValue",
    "WebSocketClass",
    "WebSocketLike",
    "Rejection",
    "rejection",
}
FOUND = {
    name: each
    for path in (SOURCE / "src").glob("*.ts")
    for name, each in declarations(path.read_text()).items()
}


def test_every_public_name_is_on_the_page() -> None:
    index = (SOURCE / "src" / "index.ts").read_text()
    listed = {
        name.strip().removeprefix("type ")
        for names in re.findall(r"export (?:type )?\{([^}]*)\}", index)
        for name in names.split(",")
    }
    errors = set(declarations((SOURCE / "src" / "errors.ts").read_text()))

    assert listed | errors == {*MESSAGES, *ERRORS} | LEFT_OUT


@pytest.mark.parametrize("name", [*MESSAGES, *ERRORS])
def test_every_declaration_and_member_says_what_it_is(name: str) -> None:
    assert FOUND[name].comment
    # The two that the comment before them covers.
    silent = {each.name for each in FOUND[name].members if not each.comment}
    assert silent - {"nacked", "deadLettered"} == set()


def test_members_are_read_with_their_types_and_comments() -> None:
    text = """/** Waits. */
export class Waiter extends Other {
  /** How long. */
  readonly ms: number = 5;
  #hidden = 1;
  override readonly name: string = "";
  /** @internal */
  handle: number;

  constructor(given: number) {}

  /**
   * Over two
   * lines.
   */
  async wait(options: { ms?: number } = {}): Promise<void> {
    return;
  }

  get state(): "on" | "off" {
    return "on";
  }
}
"""

    waiter = declarations(text)["Waiter"]

    assert (waiter.comment, waiter.base) == ("Waits.", "Other")
    assert [(each.name, each.type or each.signature, each.comment) for each in waiter.members] == [
        ("ms", "number", "How long."),
        ("wait", "wait(options: { ms?: number } = {}): Promise<void>", "Over two\nlines."),
        ("state", '"on" | "off"', ""),
    ]
