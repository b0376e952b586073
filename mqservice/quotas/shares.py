"""How processes that know each other's demand split one limit. Pure functions.

    demands of all ──▶ [fair_share] ──▶ what one of them may use; together exactly the limit

Max-min fair: nobody gets less than he asks for while another gets more than an equal part. What
nobody asks for is split evenly, so that whoever begins has something. Those who are silent are
taken to ask for a tenth of an equal part (``floor_of``), and keep to that until they have spoken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_FLOOR: Final = 0.1


def floor_of(limit: float, process_count: int) -> float:
    """What a process may use of which the others have not heard."""
    return limit * _FLOOR / process_count


def fair_share(limit: float, own: float, others: Sequence[float], process_count: int) -> float:
    """What may be used by the process that asks for ``own``. Those not among ``others`` are silent.

    Shares that are computed from the same demands add up to ``limit``.
    """
    count = max(process_count, len(others) + 1)
    floor = floor_of(limit, count)
    demands = [max(own, floor), *(max(other, floor) for other in others)]
    demands += [floor] * (count - len(demands))
    left = float(limit)
    share = 0.0
    ordered = sorted(range(count), key=lambda index: (demands[index], index))
    for place, index in enumerate(ordered):
        granted = min(demands[index], left / (count - place))
        left -= granted
        if index == 0:
            share = granted
    return share + left / count
