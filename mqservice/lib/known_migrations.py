"""Whether this version made a database, asked before anything in it or in the store changes.

Called by ``migrate``, and by ``mqservice up`` before it starts the engine.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mqservice import __version__


def version_problem(applied: Iterable[tuple[str, str]]) -> str:
    """Why migrations (app, name) are not this version's, for people to read; empty when they are.

    Only our own count: a library may give up the names of its old ones.
    """
    files = Path(__file__).parents[1].glob("*/migrations/0*.py")
    known = {(file.parts[-3], file.stem) for file in files}
    ours = {app for app, _ in known}
    unknown = sorted(each for each in applied if each[0] in ours and each not in known)
    if not unknown:
        return ""
    return (
        f"Another version of mqservice has made this database: this version, {__version__}, does "
        f"not know {len(unknown)} of its migrations, such as {'.'.join(unknown[0])}. Start the "
        "version that made it, restore a backup made by this one, or start with an empty database."
    )
