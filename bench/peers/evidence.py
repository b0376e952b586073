"""What a run has found, as it is kept: ``evidence/peers.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from bench.machine import Machine
from bench.peers.peer import PeerFacts
from bench.peers.turns import Figure, Timing

ROOT: Final = Path(__file__).resolve().parents[2]
EVIDENCE: Final = ROOT / "evidence" / "peers.json"
FORMAT_VERSION: Final = 1


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """One workload with the figures of all ways. ``failed``: those without one, and why."""

    key: str
    title: str
    unit: str
    how: str
    is_less_better: bool
    figures: list[Figure]
    failed: dict[str, str] = {}


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """``skipped``: peers that were not there, or what of them, with the reason."""

    format_version: int = FORMAT_VERSION
    taken_at: str
    commit: str
    machine: Machine
    timing: Timing
    seconds: float
    peers: list[PeerFacts]
    skipped: dict[str, str]
    sections: list[Section]


def write_evidence(path: Path, evidence: Evidence) -> None:
    """The same bytes for the same evidence."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Read back first, so that a whole number is written as what its field is.
    same = msgspec.json.decode(msgspec.json.encode(evidence), type=Evidence)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(same), indent=1) + b"\n")


def read_evidence(path: Path) -> Evidence:
    """Raises ValueError when it is of another version."""
    found = msgspec.json.decode(path.read_bytes(), type=Evidence)
    if found.format_version != FORMAT_VERSION:
        raise ValueError(f"{path} is of version {found.format_version}, not {FORMAT_VERSION}")
    return found
