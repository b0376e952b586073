"""``python3 -m deploy.image [--target NAME]``: builds the image with an installed tool.

    docker, podman or buildah ──▶ base: pulled, named by digest ──▶ Dockerfile ──▶ mqservice:VERSION
                  └─ buildah, no registry: made by debootstrap ─┘         └─▶ dist/*.cdx.json

Needs only the standard library, git where there is a repository, and root for debootstrap.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
BASE: Final = "docker.io/library/debian:trixie-slim"
SUITE: Final = "trixie"
MIRROR: Final = "http://deb.debian.org/debian"
ARCHIVES: Final = (
    f"deb {MIRROR} {SUITE} main",
    f"deb {MIRROR} {SUITE}-updates main",
    f"deb {MIRROR}-security {SUITE}-security main",
)
LOCAL_BASE: Final = "localhost/mqservice-base:trixie"
PULL_S_MAX: Final = 120
MB: Final = 1_000_000
SBOM: Final = "/usr/share/doc/mqservice/sbom.cdx.json"
# What debian:trixie-slim leaves out as well; licences stay.
SLIM: Final = (
    "path-exclude /usr/share/doc/*",
    "path-include /usr/share/doc/*/copyright",
    "path-exclude /usr/share/man/*",
    "path-exclude /usr/share/info/*",
    "path-exclude /usr/share/lintian/*",
    "path-exclude /usr/share/locale/*",
)
NO_TOOL: Final = (
    "Neither docker with a running daemon, podman nor buildah is here.\n"
    "On Debian or Ubuntu, as root: apt-get install buildah debootstrap"
)
NO_BASE: Final = (
    f"{BASE} cannot be pulled, and to make one without a registry {{}}.\n"
    "On Debian or Ubuntu, as root: apt-get install buildah debootstrap"
)


class BuildFailed(Exception):
    """Its text tells the user what to do."""


class Base(NamedTuple):
    """``digest`` is empty for one made here."""

    name: str
    digest: str


def find_tool() -> str:
    """Of docker, podman and buildah the first that can work here. Raises BuildFailed."""
    if shutil.which("docker") and _works("docker", "info"):
        return "docker"
    for tool in ("podman", "buildah"):
        if shutil.which(tool):
            return tool
    raise BuildFailed(NO_TOOL)


def build(tool: str, target: str, tag: str) -> None:
    """Builds one target under this tag. Minutes. Raises BuildFailed."""
    base = _base(tool)
    labels = {
        "version": version(),
        "revision": _revision(),
        "source": _source(),
        "base.digest": base.digest,
    }
    command = [tool, "build", "--file", str(ROOT / "Dockerfile"), "--target", target, "--tag", tag]
    if tool == "buildah":
        command += ["--isolation", "chroot"]
    if tool != "docker":
        # The other format has no HEALTHCHECK. Layers are kept, so that a second build is quick.
        command += ["--format", "docker", "--layers", "--pull=never"]
    command += ["--build-arg", f"BASE={base.name}"]
    for name, value in labels.items():
        if value:
            command += ["--label", f"org.opencontainers.image.{name}={value}"]
    with tempfile.TemporaryDirectory(prefix="mqservice-image") as directory:
        for name, path in registry_secrets(Path(directory), os.environ).items():
            command += ["--secret", f"id={name},src={path}"]
        _run(*command, str(ROOT), env={**os.environ, "DOCKER_BUILDKIT": "1"})


def size_bytes(tool: str, tag: str) -> int:
    """All layers of an image, not compressed."""
    return (
        int(_output(tool, "inspect", "--format", "{{.Size}}", tag))
        if tool != "buildah"
        else (_buildah_size(tag))
    )


def sbom(tool: str, tag: str) -> str:
    """The bill of materials that the image carries."""
    if tool != "buildah":
        return _output(tool, "run", "--rm", "--entrypoint", "cat", tag, SBOM)
    container = _output("buildah", "from", "--pull-never", tag).strip()
    try:
        return _output("buildah", "run", "--isolation", "chroot", container, "--", "cat", SBOM)
    finally:
        _run("buildah", "rm", container, quiet=True)


def version() -> str:
    """Of the service."""
    text = (ROOT / "mqservice/__init__.py").read_text()
    return str(re.findall(r'__version__ = "(.+)"', text)[0])


def _buildah_size(tag: str) -> int:
    for image in json.loads(_output("buildah", "images", "--json")):
        if any(name in (tag, f"localhost/{tag}") for name in image["names"] or ()):
            number, unit = image["size"].split()
            return int(float(number) * {"KB": 1_000, "MB": MB, "GB": 1_000 * MB}[unit])
    raise BuildFailed(f"there is no image {tag}")


def _base(tool: str) -> Base:
    """The base by digest where a registry answers, else one made here."""
    try:
        pulled = _works(tool, "pull", "--quiet", BASE)
    except subprocess.TimeoutExpired:
        pulled = False
    if pulled:
        digest = _digest(tool)
        return Base(f"{BASE.partition(':')[0]}@{digest}", digest)
    if tool != "buildah":
        raise BuildFailed(NO_BASE.format(f"buildah is needed, not {tool}: make image TOOL=buildah"))
    if _works("buildah", "inspect", "--type", "image", LOCAL_BASE):
        return Base(LOCAL_BASE, "")
    print(f"{BASE} cannot be pulled; making a base with debootstrap ...", flush=True)
    if shutil.which("debootstrap") is None:
        raise BuildFailed(NO_BASE.format("debootstrap is missing"))
    if os.geteuid() != 0:
        raise BuildFailed(NO_BASE.format("debootstrap needs root"))
    _debootstrap()
    return Base(LOCAL_BASE, "")


def _digest(tool: str) -> str:
    if tool == "buildah":
        text = _output(
            "buildah", "inspect", "--type", "image", "--format", "{{.FromImageDigest}}", BASE
        )
    else:
        text = _output(tool, "inspect", "--format", "{{index .RepoDigests 0}}", BASE)
    return text.strip().rpartition("@")[2]


def _debootstrap() -> None:
    """As debian:trixie-slim is made, with the same archives."""
    with tempfile.TemporaryDirectory(prefix="mqservice-base") as directory:
        root = Path(directory) / "root"
        _run("debootstrap", "--variant=minbase", SUITE, str(root), MIRROR, quiet=True)
        (root / "etc/apt/sources.list").write_text("".join(f"{line}\n" for line in ARCHIVES))
        config = root / "etc/dpkg/dpkg.cfg.d/slim"
        config.write_text("".join(f"{line}\n" for line in SLIM))
        # debootstrap unpacks the first packages without dpkg, hence without these rules.
        for each in (root / "usr/share/doc").rglob("*"):
            if each.name != "copyright" and not each.is_dir():
                each.unlink()
        for name in ("man", "info", "lintian", "locale"):
            for each in (root / "usr/share" / name).glob("*"):
                shutil.rmtree(each) if each.is_dir() else each.unlink()
        for pattern in (
            "var/cache/apt/*",
            "var/lib/apt/lists/*",
            "var/log/*",
            "var/cache/debconf/*-old",
        ):
            for each in root.glob(pattern):
                shutil.rmtree(each) if each.is_dir() else each.unlink()
        container = _output("buildah", "from", "scratch").strip()
        try:
            _run("buildah", "add", "--quiet", container, str(root), "/", quiet=True)
            _run(
                "buildah",
                "commit",
                "--quiet",
                "--format",
                "docker",
                container,
                LOCAL_BASE,
                quiet=True,
            )
        finally:
            _run("buildah", "rm", container, quiet=True)


def registry_secrets(directory: Path, env: Mapping[str, str]) -> dict[str, Path]:
    """Files for the build that say how this machine reaches its registries; none is kept."""
    found = {name: value for name, value in env.items() if _concerns_registries(name, value)}
    for pip, uv in (
        ("PIP_INDEX_URL", "UV_DEFAULT_INDEX"),
        ("PIP_EXTRA_INDEX_URL", "UV_EXTRA_INDEX_URL"),
    ):
        if pip in found:
            found.setdefault(uv, found[pip])
    secrets = {}
    if settings := _apt_settings():
        secrets["apt"] = directory / "apt"
        secrets["apt"].write_text(settings)
        found["APT_CONFIG"] = "/run/secrets/apt"
    certificates = env.get("SSL_CERT_FILE") or env.get("PIP_CERT") or ""
    if Path(certificates).is_file():
        secrets["certificates"] = Path(certificates)
        inside = "/run/secrets/certificates"
        found |= {"SSL_CERT_FILE": inside, "PIP_CERT": inside}
    if found:
        secrets["registries"] = directory / "registries"
        lines = [f"{name}={shlex.quote(value)}\n" for name, value in sorted(found.items())]
        secrets["registries"].write_text("".join(lines))
    return secrets


def _apt_settings() -> str:
    """Proxies, and which dates of archives this machine accepts; empty without apt."""
    if shutil.which("apt-config") is None:
        return ""
    wanted = r"^Acquire::(?:https?::Proxy|Check-).*;$"
    return "".join(f"{line}\n" for line in re.findall(wanted, _output("apt-config", "dump"), re.M))


def _concerns_registries(name: str, value: str) -> bool:
    """Files and folders of this machine are of no use inside the build."""
    if value.startswith("/"):
        return False
    proxies = {"http_proxy", "https_proxy", "no_proxy"}
    return name.startswith(("PIP_", "UV_")) or name.lower() in proxies


def _revision() -> str:
    """The commit, with a mark where files differ from it; empty outside a repository."""
    try:
        commit = _output("git", "-C", str(ROOT), "rev-parse", "HEAD").strip()
        changed = _output("git", "-C", str(ROOT), "status", "--porcelain").strip()
    except (BuildFailed, FileNotFoundError):
        return ""
    return f"{commit}-modified" if changed else commit


def _source() -> str:
    """The web address of the repository, without credentials; empty where there is none."""
    try:
        url = _output("git", "-C", str(ROOT), "remote", "get-url", "origin").strip()
    except (BuildFailed, FileNotFoundError):
        return ""
    return re.sub(r"//[^/@]*@", "//", url) if url.startswith("https://") else ""


def _works(*argv: str) -> bool:
    done = subprocess.run(argv, capture_output=True, timeout=PULL_S_MAX, check=False)
    return done.returncode == 0


def _output(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildFailed(f"{shlex.join(argv)} failed:\n{done.stderr}")
    return done.stdout


def _run(*argv: str, env: Mapping[str, str] | None = None, quiet: bool = False) -> None:
    if quiet:
        _output(*argv)
    elif subprocess.run(argv, env=env, check=False).returncode != 0:
        raise BuildFailed(f"{argv[0]} could not build the image; its last lines say why")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m deploy.image", description=__doc__)
    parser.add_argument("--target", choices=("service", "analytics", "cluster"), default="service")
    parser.add_argument("--tool", choices=("docker", "podman", "buildah"), default=None)
    options = parser.parse_args()
    name = "mqservice" if options.target == "service" else f"mqservice-{options.target}"
    tag = f"{name}:{version()}"
    started_s = time.monotonic()
    try:
        tool = options.tool or find_tool()
        build(tool, options.target, tag)
        beside = ROOT / "dist" / f"{name}-{version()}.cdx.json"
        beside.parent.mkdir(exist_ok=True)
        beside.write_text(sbom(tool, tag))
        took_s = time.monotonic() - started_s
        print(f"{tag}: {size_bytes(tool, tag) / MB:.0f} MB, built with {tool} in {took_s:.0f} s")
        print(f"Bill of materials: {beside.relative_to(ROOT)}")
    except BuildFailed as exc:
        print(exc, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
