"""Hosts and links of a network of the test's own, made of network namespaces; links can be cut.

    Network(links) ──▶ a namespace for each host, a veth pair for each link, no route out of any
    [cut one end] ──▶ what that end sends is dropped without a word, and counted by the kernel

A host has an address of its own, which its neighbours reach over their link with it, and one more
on each link.

A namespace has no name: it lives as long as this process, or one that was started in it, so nothing
is left behind by a process that was killed. Addresses are those that are kept for documentation.
Threads enter a namespace by themselves, and what they start or open there stays there.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import threading
from collections.abc import Callable
from enum import StrEnum
from functools import cache
from typing import Final, NamedTuple, TypeVar

T = TypeVar("T")

_CLONE_NEWNET: Final = 0x40000000
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_COMMAND_S_MAX: Final = 30


class Link(NamedTuple):
    """Two hosts that see each other. The second is the one that answers."""

    asking: str
    answering: str

    def __str__(self) -> str:
        return f"{self.asking} and {self.answering}"


class Direction(StrEnum):
    """What of a link is cut: what the asking host sends, what it is answered, or both."""

    QUESTIONS = "questions"
    ANSWERS = "answers"
    BOTH = "both"


class Host:
    """One network namespace."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._file = _in_thread(_make_namespace)

    @property
    def path(self) -> str:
        """For programs that want to know which namespace is meant."""
        return f"/proc/{os.getpid()}/fd/{self._file}"

    def enter(self) -> None:
        """From here on this thread, and what it starts, is on the host."""
        if _LIBC.setns(self._file, _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter the namespace of {self.name}")

    def run(self, work: Callable[[], T]) -> T:
        """What ``work`` returns or raises, done by a thread on the host."""

        def entered() -> T:
            self.enter()
            return work()

        return _in_thread(entered)

    def command(self, *words: str) -> str:
        """What a program on the host prints. Raises ``OSError`` with what it complains of."""
        done = self.run(
            lambda: subprocess.run(
                words, capture_output=True, text=True, timeout=_COMMAND_S_MAX, check=False
            )
        )
        if done.returncode != 0:
            raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def close(self) -> None:
        os.close(self._file)


class Network:
    """Each host is on all links that name it. At most 63 links."""

    def __init__(self, *links: Link) -> None:
        self.links = links
        self.hosts = {name: Host(name) for link in links for name in link}
        self.addresses = {
            name: f"198.51.100.{number}" for number, name in enumerate(self.hosts, start=1)
        }
        for name, host in self.hosts.items():
            host.command("ip", "address", "add", f"{self.addresses[name]}/32", "dev", "lo")
        self._addresses: dict[tuple[Link, str], str] = {}
        self._devices: dict[tuple[Link, str], str] = {}
        for number, link in enumerate(links):
            self._connect(number, link)

    def address(self, link: Link) -> str:
        """Where the asking host finds the other one."""
        return self._addresses[link, link.answering]

    def cut(self, link: Link, direction: Direction) -> None:
        """What is sent that way is dropped from now on; neither side is told."""
        for name in _senders(link, direction):
            device = self._devices[link, name]
            self.hosts[name].command("tc", "qdisc", "replace", "dev", device, "root", "blackhole")

    def dropped_count(self, link: Link, direction: Direction) -> int:
        """Packets since the cut. A host that hears nothing may have nothing to say either."""
        return sum(
            sum(each.get("drops", 0) for each in json.loads(self._counters(link, name)))
            for name in _senders(link, direction)
        )

    def heal(self, link: Link, direction: Direction) -> None:
        for name in _senders(link, direction):
            device = self._devices[link, name]
            self.hosts[name].command("tc", "qdisc", "del", "dev", device, "root")

    def close(self) -> None:
        """Programs on the hosts must have ended."""
        for host in self.hosts.values():
            host.close()

    def _counters(self, link: Link, name: str) -> str:
        device = self._devices[link, name]
        return self.hosts[name].command("tc", "-s", "-j", "qdisc", "show", "dev", device)

    def _connect(self, number: int, link: Link) -> None:
        ends = {link.asking: f"veth{number}a", link.answering: f"veth{number}b"}
        self.hosts[link.asking].command(
            "ip", "link", "add", ends[link.asking], "type", "veth",
            "peer", "name", ends[link.answering], "netns", self.hosts[link.answering].path,
        )  # fmt: skip
        for place, (name, device) in enumerate(ends.items(), start=1):
            address = f"192.0.2.{4 * number + place}"
            host = self.hosts[name]
            host.command("ip", "address", "add", f"{address}/30", "dev", device)
            host.command("ip", "link", "set", device, "up")
            self._addresses[link, name] = address
            self._devices[link, name] = device
        for name, other in (link, reversed(link)):
            self.hosts[name].command(
                "ip",
                "route",
                "add",
                f"{self.addresses[other]}/32",
                "via",
                self._addresses[link, other],
            )


@cache
def why_no_namespaces() -> str:
    """The reason why no network can be made here; empty when it can, and drops what it should."""
    link = Link("one", "other")
    try:
        network = Network(link)
    except (OSError, subprocess.SubprocessError) as exc:
        return f"network namespaces cannot be made: {exc}"
    try:
        network.cut(link, Direction.BOTH)
        network.dropped_count(link, Direction.BOTH)
        network.heal(link, Direction.BOTH)
    except (OSError, subprocess.SubprocessError) as exc:
        return f"links of network namespaces cannot be cut: {exc}"
    finally:
        network.close()
    return ""


def _senders(link: Link, direction: Direction) -> tuple[str, ...]:
    match direction:
        case Direction.QUESTIONS:
            return (link.asking,)
        case Direction.ANSWERS:
            return (link.answering,)
        case Direction.BOTH:
            return tuple(link)


def _make_namespace() -> int:
    """A file that stands for a new namespace; this thread is in it."""
    if _LIBC.unshare(_CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare of the network needs root")
    subprocess.run(
        ["ip", "link", "set", "lo", "up"], capture_output=True, timeout=_COMMAND_S_MAX, check=True
    )
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _in_thread(work: Callable[[], T]) -> T:
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as exc:
            errors.append(exc)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
