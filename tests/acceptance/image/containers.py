"""Containers of the real image, without docker: what a container runtime does, by hand.

    buildah mount ──▶ read-only root, /data and /tmp writable, no capabilities ──▶ PID 1
                                                                     nsenter ──▶ a health check

The network is this machine's own. A process is PID 1 of its own namespace, where the kernel ignores
SIGTERM unless the process handles it; compose has it so too.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from deploy.image.__main__ import build
from tests.services import wait_until

ROOT: Final = Path(__file__).resolve().parents[3]
UID: Final = 10001
STOP_S_MAX: Final = 60
_PROGRAMS: Final = ("buildah", "unshare", "nsenter", "chroot", "mount")
_INPUTS: Final = (
    "Dockerfile", ".dockerignore", "*.lock", "LICENSE", "NOTICE", "manage.py", "deploy/image",
    "mqservice", "storage_engine", "analytics", "frontend", "docs", "mkdocs.yml",
    "clients/python",
)  # fmt: skip
_AS_USER: Final = (
    "/usr/bin/setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups",
    "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--",
    "/usr/bin/env", "--ignore-environment", "--chdir=/data",
)  # fmt: skip
# $1 is the root, $2 the directory for /data; what follows them is run.
_ENTER: Final = """
set -e
root=$1 data=$2; shift 2
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir -m 1777 "$root/dev/shm"
for each in null zero full random urandom; do
    touch "$root/dev/$each"; mount --bind "/dev/$each" "$root/dev/$each"
done
ln -s /proc/self/fd "$root/dev/fd"
echo 127.0.0.1 localhost > "$root/etc/hosts"  # as every container runtime writes it
mount --bind "$data" "$root/data"
mount -o remount,bind,ro "$root"
exec chroot "$root" "$@"
"""


@functools.cache
def why_no_image() -> str:
    """The reason why no image can be built and run here; empty when it can."""
    missing = [program for program in _PROGRAMS if shutil.which(program) is None]
    if "buildah" in missing:
        return "buildah is not installed; on Debian or Ubuntu: apt-get install buildah debootstrap"
    if missing:
        return f"{missing[0]} is not installed"
    if os.geteuid() != 0:
        return "to run an image without a container runtime needs root"
    tried = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "mount", "-t", "tmpfs", "none", "/mnt"],
        capture_output=True,
        check=False,
    )
    return "" if tried.returncode == 0 else f"nothing can be mounted: {tried.stderr.decode()[:100]}"


class Container:
    """One that runs. ``pid`` is that of its first process, seen from here."""

    def __init__(self, unshare: subprocess.Popen[bytes], env: Mapping[str, str], log: Path) -> None:
        self._unshare = unshare
        self._env = env
        self._log = log
        wait_until(lambda: bool(self._children()), STOP_S_MAX, "the container has a process")
        self.pid = self._children()[0]

    def _children(self) -> list[int]:
        assert self._unshare.poll() is None, f"the container has ended:\n{self.log_text}"
        return _children_of(self._unshare.pid)

    @property
    def log_text(self) -> str:
        return self._log.read_text(errors="replace")

    def execute(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """A second process, such as a health check, with the rights of the first."""
        enter = ["nsenter", f"--target={self.pid}", "--mount", "--pid", "--root", "--"]
        variables = [f"{name}={value}" for name, value in self._env.items()]
        return subprocess.run(
            [*enter, *_AS_USER, *variables, *argv], capture_output=True, text=True, check=False
        )

    def is_healthy(self, *check: str) -> bool:
        """Whether this health check passes. Fails once the container has ended."""
        assert self._unshare.poll() is None, f"the container has ended:\n{self.log_text}"
        return self.execute(*check).returncode == 0

    def wait(self, timeout_s: float) -> int:
        """Exit code of a process that ends by itself."""
        return self._unshare.wait(timeout_s)

    def stop(self) -> int:
        """What ``docker stop`` does, without its SIGKILL. Returns the exit code."""
        if self._unshare.poll() is None:
            os.kill(self.pid, signal.SIGTERM)
        return self._unshare.wait(STOP_S_MAX)


class Image:
    """A built one, mounted at ``root``."""

    def __init__(self, tag: str, root: Path) -> None:
        self.tag = tag
        self.root = root
        text = _output("buildah", "inspect", "--type", "image", tag)
        self.config: dict[str, Any] = json.loads(text)["Docker"]["config"]  # of any image

    @property
    def health_check(self) -> list[str]:
        """Words of HEALTHCHECK; none where the image has switched it off."""
        _, *words = self.config["Healthcheck"]["Test"]
        return [str(word) for word in words]

    @contextmanager
    def running(
        self, data: Path, argv: Sequence[str] = (), env: Mapping[str, str] | None = None
    ) -> Iterator[Container]:
        """The image's own command unless another is given; killed at the end if it still runs."""
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chown(data, UID, UID)
        whole_env = dict(each.split("=", 1) for each in self.config["Env"]) | dict(env or {})
        command = argv or self.config["Cmd"]
        variables = [f"{name}={value}" for name, value in whole_env.items()]
        handle, name = tempfile.mkstemp(dir=data.parent, prefix="container-", suffix=".log")
        with os.fdopen(handle, "wb") as output:
            unshare = subprocess.Popen(
                ["unshare", "--mount", "--pid", "--fork", "sh", "-c", _ENTER, "sh",
                 str(self.root), str(data), *_AS_USER, *variables, *command],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        with ExitStack() as stack:
            stack.callback(_kill, unshare)
            yield Container(unshare, whole_env, Path(name))


@contextmanager
def built_image(target: str) -> Iterator[Image]:
    """The image of this checkout; built only when one of its inputs has changed. A minute, or less
    where the layers of an earlier build still fit.
    """
    name = f"localhost/mqservice-test-{target}"
    tag = f"{name}:{_inputs_hash()}"
    if not _exists(tag):
        build("buildah", target, tag)
        _remove_others(name, tag)
    container = _output("buildah", "from", "--pull-never", tag).strip()
    try:
        yield Image(tag, Path(_output("buildah", "mount", container).strip()))
    finally:
        _output("buildah", "rm", container)


def _exists(tag: str) -> bool:
    asked = ["buildah", "inspect", "--type", "image", tag]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


def _remove_others(name: str, tag: str) -> None:
    """Those of earlier inputs, unless a container of another run still has them."""
    listed = _output("buildah", "images", "--format", "{{.Name}}:{{.Tag}}").split()
    for other in listed:
        if other.startswith(f"{name}:") and other != tag:
            subprocess.run(["buildah", "rmi", other], capture_output=True, check=False)


def _inputs_hash() -> str:
    listed = _output(
        "git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", *_INPUTS
    )
    found = hashlib.sha256()
    for name in sorted(set(listed.split("\n")) - {""}):
        path = ROOT / name
        found.update(f"{name}\0".encode() + (path.read_bytes() if path.is_file() else b""))
    return found.hexdigest()[:16]


def _kill(unshare: subprocess.Popen[bytes]) -> None:
    """The whole container: with its first process the kernel ends all others."""
    if unshare.poll() is None:
        for pid in _children_of(unshare.pid):
            os.kill(pid, signal.SIGKILL)
        unshare.wait(STOP_S_MAX)


def _children_of(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _output(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
