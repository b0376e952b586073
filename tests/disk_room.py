"""Whether the disk of the tests has room for them.

On a disk that is nearly full an engine refuses puts, as it should. Tests of the whole service would
then wait for messages until their time is over, one after the other, and none would say why.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from storage_engine.config import StoreConfig

GIB: Final = 1024**3
NEEDED_BYTES: Final = 8 * GIB  # what one run has on the disk at most, and then some


def why_no_room(directory: Path) -> str | None:
    """What is wrong with the disk of ``directory`` and what would be right; None: nothing."""
    usage = shutil.disk_usage(directory)
    config = StoreConfig(store_dir=str(directory))
    left_bytes = usage.free - NEEDED_BYTES
    percent = 100 * (usage.total - left_bytes) / usage.total
    enough_bytes = 2 * config.disk_enough_bytes
    if left_bytes >= enough_bytes or percent < config.disk_force_percent:
        return None
    return (
        f"the disk of {directory} has {usage.free / GIB:.1f} of {usage.total / GIB:.1f} GiB free. "
        f"The tests take {NEEDED_BYTES // GIB}, and then an engine must still see "
        f"{enough_bytes // GIB} GiB free or the disk less than "
        f"{config.disk_force_percent} % full: make room, or set TMPDIR to another disk"
    )
