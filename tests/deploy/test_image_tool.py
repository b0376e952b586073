"""``make image`` where no image can be built: what it says, what it passes on, what it lists."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from deploy.image.__main__ import registry_secrets
from deploy.image.sbom import bill_of_materials

ROOT = Path(__file__).resolve().parents[2]
DPKG = """Package: base-files
Status: install ok installed
Architecture: amd64
Version: 13.8+deb13u1

Package: removed
Status: deinstall ok config-files
Architecture: amd64
Version: 1
"""


class FakeDistribution(Distribution):
    """An installed package with these fields of metadata."""

    def __init__(self, **fields: str) -> None:
        self._text = "".join(f"{name.replace('_', '-')}: {text}\n" for name, text in fields.items())

    def read_text(self, filename: str) -> str | None:
        return self._text if filename == "METADATA" else None

    def locate_file(self, path: object) -> Path:
        raise NotImplementedError


def test_without_any_tool_it_says_what_to_install(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "deploy.image"],
        cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 1
    assert "apt-get install buildah debootstrap" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_build_is_told_how_this_machine_reaches_its_registries(tmp_path: Path) -> None:
    authorities = tmp_path / "authorities.crt"
    authorities.write_text("certificate")
    env = {
        "PIP_INDEX_URL": "https://user:pass word@packages.test/simple",
        "PIP_FIND_LINKS": "/opt/of/this/machine",
        "PIP_CERT": str(authorities),
        "HOME": "/home/someone",
        "SECRET_OF_ANOTHER": "1",
    }

    secrets = registry_secrets(tmp_path, env)

    assert secrets["certificates"] == authorities
    text = secrets["registries"].read_text()
    assert "PIP_INDEX_URL='https://user:pass word@packages.test/simple'\n" in text
    assert "UV_DEFAULT_INDEX='https://user:pass word@packages.test/simple'\n" in text
    assert "SSL_CERT_FILE=/run/secrets/certificates\n" in text
    assert str(authorities) not in text
    assert "FIND_LINKS" not in text
    assert "HOME" not in text
    assert "SECRET_OF_ANOTHER" not in text


def test_a_bill_of_materials_lists_what_is_installed() -> None:
    lock = "some-package==1.2 \\\n    --hash=sha256:00\nnot-installed==3\n"
    found = FakeDistribution(Name="Some.Package", Version="1.2", License_Expression="MIT")

    bill = bill_of_materials(lock, [found], DPKG, "0.9")

    assert [each["purl"] for each in bill["components"]] == [
        "pkg:pypi/some-package@1.2",
        "pkg:deb/debian/base-files@13.8%2Bdeb13u1?arch=amd64",
    ]
    assert bill["components"][0]["licenses"] == [{"expression": "MIT"}]
    assert bill["metadata"]["component"]["version"] == "0.9"


def test_a_package_that_the_lock_does_not_have_fails_the_build() -> None:
    found = FakeDistribution(Name="stray", Version="1")
    with pytest.raises(ValueError, match="stray 1 is installed"):
        bill_of_materials("other==1 \\\n", [found], DPKG, "0.9")
