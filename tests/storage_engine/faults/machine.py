"""What this machine lets tests do: tracing, mounting, Java, RocketMQ, Kafka, Node, AWS's SDKs,
a browser, buildah, Prometheus. The only place that may skip.

Every promise that a test here checks with the real kernel is also checked with injected system
calls (``crash``), which any machine can run. Spark has no such double: without Java 17 reports are
not tested, and the reason says how to get it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path
from typing import Final

import pytest

from analytics.session import spark_problem
from tests.acceptance.console.keycloak_program import why_no_keycloak
from tests.acceptance.image.containers import why_no_image
from tests.acceptance.partitions.network import why_no_namespaces
from tests.chromium import find_chromium, why_no_chromium
from tests.clients.python.django_shop import why_no_variant
from tests.clients.sqs.programs import why_no_program
from tests.clients.typescript.package import why_no_package
from tests.rocketmq.broker_program import why_no_broker
from tests.storage_engine.replicated_log.kafka_program import why_no_kafka

_SHUTDOWN: Final = 0x8004587D  # FS_IOC_SHUTDOWN
_NO_LOG_FLUSH: Final = struct.pack("I", 2)
MIB: Final = 1024 * 1024


def need_strace() -> None:
    """Skip where system calls cannot be traced and injured."""
    if reason := why_no_strace():
        pytest.skip(reason)  # no strace here; injected system calls hold the same promises


def need_mounts() -> None:
    """Skip where this user cannot mount file systems."""
    if reason := why_no_mounts():
        pytest.skip(reason)  # no mounts here; recorded crash states hold the same promises


def need_namespaces() -> None:
    """Skip where this user cannot make networks and cut them."""
    if reason := why_no_namespaces():
        pytest.skip(reason)  # no networks here; servers that end hold most of the same promises


def need_java() -> None:
    """Skip where Spark cannot run."""
    if reason := spark_problem():
        pytest.skip(reason)  # no Java here; without it the service makes no reports, and says so


def need_broker() -> None:
    """Skip where RocketMQ's broker cannot be run."""
    if reason := why_no_broker():
        pytest.skip(reason)  # no RocketMQ here; stores made byte by byte hold most of the promises


def need_kafka() -> None:
    """Skip where Kafka's broker cannot be run."""
    if reason := why_no_kafka():
        pytest.skip(reason)  # no Kafka here; the other adapters keep the same promises


def need_keycloak() -> None:
    """Skip where Keycloak cannot be run."""
    if reason := why_no_keycloak():
        pytest.skip(reason)  # no Keycloak here; a small provider shows what one may say


def need_sqs_program(kind: str) -> None:
    """Skip where a program of AWS's SDK cannot be run; ``kind`` is one of ``programs.KINDS``."""
    if reason := why_no_program(kind):
        pytest.skip(reason)  # the other SDKs do the same, and boto3 does all of it in the suite


def need_image() -> None:
    """Skip where the container image cannot be built and run."""
    if reason := why_no_image():
        pytest.skip(reason)  # no image here; what the Dockerfile says is checked without one


def need_django(variant: str) -> None:
    """Skip where no Python is new enough for this Django."""
    if reason := why_no_variant(variant):
        pytest.skip(reason)  # the other Django has the same tasks


def need_node() -> None:
    """Skip where the TypeScript client cannot be compiled and run."""
    if reason := why_no_package():
        pytest.skip(reason)  # no Node here; that its generated parts are fresh is checked without


def need_chromium() -> str:
    """Skip where there is no browser; else its path."""
    if reason := why_no_chromium():
        pytest.skip(reason)  # no browser here; what the server does for a page is tested without
    found = find_chromium()
    assert found is not None
    return found


def need_prometheus(program: str) -> str:
    """Skip where ``prometheus`` or ``promtool`` is not installed; else the path of ``program``."""
    path = shutil.which(program)
    if path is None:
        reason = f"{program} is not installed: apt-get install prometheus"
        pytest.skip(reason)  # no Prometheus here; rules and dashboard are compared with our metrics
    return path


@functools.cache
def why_no_strace() -> str:
    """The reason why system calls cannot be traced here; empty when they can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    tried = subprocess.run(
        ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=msync:error=EIO", "true"],
        capture_output=True,
        check=False,
    )
    return "" if tried.returncode == 0 else f"strace cannot trace: {tried.stderr.decode()[:100]}"


@functools.cache
def why_no_mounts() -> str:
    """The reason why nothing can be mounted here; empty when it can."""
    if os.geteuid() != 0:
        return "mounting needs root"
    if shutil.which("mkfs.ext4") is None:
        return "mkfs.ext4 is not installed"
    try:
        with ext4():
            return ""
    except subprocess.CalledProcessError as exc:
        return f"loop devices cannot be mounted: {exc.stderr.decode()[:100]}"


@contextlib.contextmanager
def tmpfs(size_bytes: int) -> Iterator[Path]:
    """A file system of memory with so much room."""
    with tempfile.TemporaryDirectory(prefix="small") as directory:
        _run("mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "none", directory)
        try:
            yield Path(directory)
        finally:
            _run("umount", "-l", directory)


class Ext4:
    """An ext4 file system in an image, whose power can be cut."""

    def __init__(self, directory: Path) -> None:
        self._image = directory / "image"
        self.path = directory / "mounted"
        self.path.mkdir()

    def make(self, size_bytes: int) -> None:
        with self._image.open("wb") as file:
            file.truncate(size_bytes)
        _run("mkfs.ext4", "-q", "-F", str(self._image))

    def mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.path))

    def umount(self) -> None:
        _run("umount", str(self.path))

    def cut(self) -> None:
        """Forget everything that has not been synced; nothing can be written any more."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            ioctl(descriptor, _SHUTDOWN, _NO_LOG_FLUSH)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def ext4(size_bytes: int = 48 * MIB) -> Iterator[Ext4]:
    """A mounted one; gone afterwards, whatever happened."""
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="power", dir=memory) as directory:
        disk = Ext4(Path(directory))
        disk.make(size_bytes)
        disk.mount()
        try:
            yield disk
        finally:
            if os.path.ismount(disk.path):
                _run("umount", "-l", str(disk.path))


def _run(*command: str) -> None:
    subprocess.run(command, capture_output=True, check=True)
