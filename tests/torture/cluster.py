"""The job that hurts a cluster of three nodes, see ``tests/acceptance/cluster_faults``.

seed ──▶ which faults ──▶ [cluster_faults] ──▶ a cluster, hurt again and again ──▶ Part
"""

from __future__ import annotations

import random

import msgspec

from tests.acceptance.cluster_faults.run import ALL, run_cluster_faults
from tests.acceptance.cluster_faults.site import cluster_in_network
from tests.torture.evidence import Part
from tests.torture.load_parts import part_of


def cluster_faults(fault_count: int, seed: int) -> Part:
    """So many faults of one cluster, at most one of each kind; all of them in their order, which is
    that of the recording.
    """
    chosen = random.Random(seed).sample(ALL, fault_count) if fault_count < len(ALL) else ALL
    with cluster_in_network() as (cluster, site):
        done, recording = run_cluster_faults(cluster, site, chosen, seed=seed)
    return msgspec.structs.replace(
        part_of(done, {"faults": len(chosen)}),
        recording=recording if chosen == ALL else None,
    )
