"""Prints the bill of materials of the image it runs in, as CycloneDX 1.6 JSON.

    lock file ─────────────────┐
    installed Python packages ─┼──▶ [bill_of_materials] ──▶ sbom.cdx.json
    /var/lib/dpkg/status ──────┘

Only the standard library is used, because it runs inside the build. The output has neither a date
nor a serial number, so the same packages give the same bytes. The build fails if an installed
Python package is not in the lock file with this version.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any
from urllib.parse import quote

DPKG_STATUS = Path("/var/lib/dpkg/status")
VERSION_FILE = Path("/app/mqservice/__init__.py")

Component = dict[str, Any]  # a component of the CycloneDX schema, written straight to JSON


def bill_of_materials(
    lock: str, installed: list[Distribution], dpkg_status: str, version: str
) -> dict[str, Any]:
    """The whole document. Raises ValueError for a Python package that the lock does not have."""
    components = [*_python_components(lock, installed), *_debian_components(dpkg_status)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "container",
                "bom-ref": f"mqservice@{version}",
                "name": "mqservice",
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": components,
    }


def _python_components(lock: str, installed: list[Distribution]) -> Iterator[Component]:
    pinned = dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", lock, re.MULTILINE))
    for found in sorted(installed, key=lambda each: _normalized(each.name)):
        name, version = _normalized(found.name), found.version
        if pinned.get(name) != version:
            raise ValueError(f"{name} {version} is installed, the lock has {pinned.get(name)}")
        purl = f"pkg:pypi/{name}@{version}"
        component: Component = {
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": version,
            "purl": purl,
        }
        for expression in found.metadata.get_all("License-Expression") or ():
            component["licenses"] = [{"expression": expression}]
        for said in found.metadata.get_all("License") or ():
            if "licenses" not in component and "\n" not in said:
                component["licenses"] = [{"license": {"name": said}}]
        yield component


def _debian_components(dpkg_status: str) -> Iterator[Component]:
    for paragraph in re.split(r"\n{2,}", dpkg_status.strip()):
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", paragraph, re.MULTILINE))
        if not fields.get("Status", "").endswith(" installed"):
            continue
        name, version = fields["Package"], fields["Version"]
        purl = f"pkg:deb/debian/{name}@{quote(version)}?arch={fields['Architecture']}"
        yield {
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": version,
            "purl": purl,
        }


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    [lock] = sys.argv[1:]
    version = re.findall(r'__version__ = "(.+)"', VERSION_FILE.read_text())[0]
    bill = bill_of_materials(
        Path(lock).read_text(), list(distributions()), DPKG_STATUS.read_text(), version
    )
    print(json.dumps(bill, indent=1))


if __name__ == "__main__":
    main()
