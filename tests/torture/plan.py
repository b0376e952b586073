"""How much of each kind a run does: a release's sizes, those of a quick try, anything between."""

from __future__ import annotations

from typing import Final, Self

import msgspec


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of the steps. Seeds count up from ``seed``.

    States are shared among workloads and ``crash_seed_count`` seeds: another seed draws other
    states and another ``anything_in_any_order``.
    """

    seed: int = 1
    crash_seed_count: int = 8
    crash_states: int = 200_000
    recovery_states: int = 20_000
    kills: int = 500
    kills_a_loop: int = 50  # then everything is drained and judged
    takeovers: int = 1_200  # in loops of so many, too
    planted_states: int = 400
    planted_a_theme: int = 1_000  # all of them
    fault_numbers: int = 8  # each system call is injured at so many of its calls
    cuts: int = 40
    cuts_a_disk: int = 5
    async_cuts: int = 10
    full_disks: int = 6
    partitions: int = 48  # three of each kind
    cluster_faults: int = 9  # one of each kind
    system_faults: int = 72  # four of each kind
    soak_minutes: int = 12
    examples: int = 2_000
    recovered_messages: int = 1_000_000

    def scaled(self, scale: float) -> Self:
        """Every size times ``scale``, but at least one of each; what is not a size stays."""
        fixed = {
            "seed",
            "kills_a_loop",
            "planted_states",
            "planted_a_theme",
            "cuts_a_disk",
            "recovered_messages",
        }
        return msgspec.structs.replace(
            self,
            **{
                name: max(1, round(getattr(self, name) * scale))
                for name in self.__struct_fields__
                if name not in fixed
            },
        )


QUICK: Final = Plan(
    crash_seed_count=1,
    crash_states=2_700,
    recovery_states=540,
    kills=16,
    kills_a_loop=8,
    takeovers=24,
    planted_states=150,
    planted_a_theme=1,
    fault_numbers=1,
    cuts=2,
    cuts_a_disk=2,
    async_cuts=1,
    full_disks=1,
    partitions=2,
    cluster_faults=1,
    system_faults=2,
    soak_minutes=1,
    examples=30,
    recovered_messages=100_000,
)
