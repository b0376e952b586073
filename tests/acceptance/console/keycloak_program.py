"""Keycloak as a program, with a realm of our own: an OpenID provider that others have written.

    keycloak/pom.xml ── mvn, once ──▶ .cache/keycloak/lib     [running_keycloak] ──▶ Keycloak

``why_no_keycloak`` says in a line what a machine lacks; its tests are skipped there.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from tests.ports import find_steady_port
from tests.rocketmq.broker_program import ROOT, why_not_fetched

PROJECT: Final = Path(__file__).with_name("keycloak")
CACHE: Final = ROOT / ".cache" / "keycloak"
REALM: Final = "acme"
CLIENT_ID: Final = "mq-console"
CLIENT_SECRET: Final = "a secret, of which + and : and 100% count"
PASSWORD: Final = "the password of each user"
START_S: Final = 400  # 20 s on an idle machine
STOP_S: Final = 60
_KEY_PROVIDERS: Final = {
    "RS256": "rsa-generated",
    "PS256": "rsa-generated",
    "ES256": "ecdsa-generated",
    "EdDSA": "eddsa-generated",
}
_ADMIN: Final = "admin"
Json = dict[str, Any]  # Any: whatever Keycloak's representations say


@functools.cache
def why_no_keycloak() -> str:
    """Why no Keycloak can be run here; empty when one can. The first call fetches it."""
    return why_not_fetched("Keycloak", PROJECT, CACHE)


class Keycloak:
    """One that runs, and its realm ``acme``."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.issuer = f"{base_url}/realms/{REALM}"

    def create_realm(self, redirect_uri: str) -> None:
        """With the service as its client, and no user. A profile may be without an address."""
        client = {
            "clientId": CLIENT_ID,
            "secret": CLIENT_SECRET,
            "publicClient": False,
            "redirectUris": [redirect_uri],
        }
        action = {
            "alias": "VERIFY_PROFILE",
            "providerId": "VERIFY_PROFILE",
            "enabled": False,
        }
        realm = {
            "realm": REALM,
            "enabled": True,
            "clients": [client],
            "requiredActions": [action],
        }
        self._ask("POST", "", realm)

    def create_user(self, name: str, **more: object) -> None:
        """``more``: fields of the representation, such as ``email``."""
        password = {"type": "password", "value": PASSWORD}
        user = {"username": name, "enabled": True, "credentials": [password], **more}
        self._ask("POST", f"/{REALM}/users", user)

    def change_user(self, name: str, **changes: object) -> None:
        [user] = self._ask("GET", f"/{REALM}/users?exact=true&username={name}").json()
        self._ask("PUT", f"/{REALM}/users/{user['id']}", {**user, **changes})

    def change_client(self, attributes: dict[str, str], **changes: object) -> None:
        [client] = self._ask("GET", f"/{REALM}/clients?clientId={CLIENT_ID}").json()
        attributes = {**client["attributes"], **attributes}
        changed = {**client, **changes, "attributes": attributes}
        self._ask("PUT", f"/{REALM}/clients/{client['id']}", changed)

    def add_signing_key(self, algorithm: str) -> None:
        """From now on tokens of the algorithm are signed by it."""
        before = self._signing_key(algorithm)
        realm = self._ask("GET", f"/{REALM}").json()
        component = {
            "name": f"next {algorithm}",
            "providerId": _KEY_PROVIDERS[algorithm],
            "providerType": "org.keycloak.keys.KeyProvider",
            "parentId": realm["id"],
            "config": {"priority": ["200"], "algorithm": [algorithm]},
        }
        self._ask("POST", f"/{REALM}/components", component)
        assert self._signing_key(algorithm) not in (None, before)

    def _signing_key(self, algorithm: str) -> str | None:
        active: dict[str, str] = self._ask("GET", f"/{REALM}/keys").json()["active"]
        return active.get(algorithm)

    def _ask(self, method: str, path: str, body: object = None) -> httpx.Response:
        form = {
            "grant_type": "password",
            "client_id": "admin-cli",
            "username": _ADMIN,
            "password": _ADMIN,
        }
        with httpx.Client(base_url=self.base_url, timeout=60, trust_env=False) as http:
            token = http.post("/realms/master/protocol/openid-connect/token", data=form).json()
            headers = {"Authorization": f"Bearer {token['access_token']}"}
            answer = http.request(method, f"/admin/realms{path}", json=body, headers=headers)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer


@contextmanager
def running_keycloak() -> Iterator[Keycloak]:
    """Everything that it keeps is gone afterwards."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        home = Path(directory)
        [archive] = (CACHE / "lib").glob("*.zip")
        shutil.unpack_archive(archive, home)
        [unpacked] = home.iterdir()
        port = find_steady_port()
        serve = ["start-dev", "--http-host=127.0.0.1", f"--http-port={port}", "--cache=local"]
        env = {
            **os.environ,
            "KC_BOOTSTRAP_ADMIN_USERNAME": _ADMIN,
            "KC_BOOTSTRAP_ADMIN_PASSWORD": _ADMIN,
            "JAVA_OPTS_APPEND": "-Xmx512m -XX:TieredStopAtLevel=1",
        }
        log = home / "keycloak.log"
        with (
            log.open("w") as output,
            subprocess.Popen(
                ["sh", str(unpacked / "bin" / "kc.sh"), *serve],
                env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            ) as process,
        ):  # fmt: skip
            try:
                running = Keycloak(f"http://127.0.0.1:{port}")
                _wait_for(running, process, log)
                yield running
            finally:
                _stop(process)


def _wait_for(keycloak: Keycloak, process: subprocess.Popen[bytes], log: Path) -> None:
    pause = threading.Event()
    for _ in range(START_S * 2):
        assert process.poll() is None, log.read_text()[-4_000:]
        with contextlib.suppress(httpx.TransportError):
            url = f"{keycloak.base_url}/realms/master"
            if httpx.get(url, timeout=60, trust_env=False).is_success:
                return
        pause.wait(0.5)
    raise AssertionError(log.read_text()[-4_000:])


def _stop(process: subprocess.Popen[bytes]) -> None:
    """With the Java that its script has started."""
    if process.poll() is not None:
        return
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
