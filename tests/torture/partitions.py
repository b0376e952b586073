"""The job that cuts the network between the parts of a running service, see ``tests/acceptance``.

seed ──▶ order of the cuts ──▶ [partitions] ──▶ an installation, cut again and again ──▶ Part
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from tests.acceptance.partitions.installation import running_installation
from tests.acceptance.partitions.run import ALL, run_partitions
from tests.torture.evidence import Part
from tests.torture.load_parts import part_of


def partitions(cut_count: int, seed: int) -> Part:
    """So many cuts of one installation, at most one of each kind, in an order of the seed's."""
    chosen = random.Random(seed).sample(ALL, cut_count)
    with (
        tempfile.TemporaryDirectory(prefix="net") as directory,  # short, for sockets
        running_installation(Path(directory)) as installation,
    ):
        done = run_partitions(installation, chosen, seed=seed, name="cuts")
    return part_of(done, {"cuts": len(chosen)})
