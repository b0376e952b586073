"""A little OpenID provider over HTTP, which says what a test wants it to say.

browser ──▶ /authorize ──▶ redirect with a code ──▶ /token ──▶ ID token ──▶ /userinfo
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from flask import Flask, Response, jsonify, redirect, request
from werkzeug.serving import make_server
from werkzeug.wrappers import Response as AnyResponse

CLIENT_ID = "mq-console"
CLIENT_SECRET = "a secret, of which + and : and 100% count"
REDIRECT_URI = "http://127.0.0.1:8000/account/single-sign-on/callback/"
EMAIL = "alice@x.example"

_PUBLISHED = object()
Json = dict[str, Any]  # Any: whatever a test wants it to say


@dataclass
class Provider:
    """Each field is what an honest provider does; a test changes one."""

    issuer: str = ""
    key: RSAPrivateKey = field(default_factory=lambda: new_key())
    signing_key: object = _PUBLISHED
    algorithm: str = "RS256"
    claims: Json = field(default_factory=dict)  # over those of the ID token; None: left out
    user_info: Json = field(default_factory=dict)
    discovery: Json = field(default_factory=dict)  # over the document; None: left out
    token_reply: Response | None = None  # in place of the tokens
    refusal: str = ""  # the error with which /authorize sends the browser back
    broken_paths: set[str] = field(default_factory=set)  # these answer 500
    paths: list[str] = field(default_factory=list)
    asked: list[Json] = field(default_factory=list)  # what browsers brought to /authorize
    codes: dict[str, Json] = field(default_factory=dict)

    def document(self) -> Json:
        return over(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize?policy=sign-in",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                "userinfo_endpoint": f"{self.issuer}/userinfo",
            },
            self.discovery,
        )

    def id_token(self, nonce: str) -> str:
        now = int(time.time())
        claims = over(
            {
                "iss": self.issuer,
                "sub": "4711",
                "aud": CLIENT_ID,
                "iat": now,
                "exp": now + 300,
                "nonce": nonce,
                "auth_time": now,
                "email": EMAIL,
                "email_verified": True,
            },
            self.claims,
        )
        key: Any = (
            self.key if self.signing_key is _PUBLISHED else self.signing_key
        )  # Any: of each kind
        return jwt.encode(claims, key, algorithm=self.algorithm, headers={"kid": "one"})


def new_key() -> RSAPrivateKey:
    return generate_private_key(public_exponent=65_537, key_size=2_048)


def over(honest: Json, changes: Json) -> Json:
    return {name: value for name, value in {**honest, **changes}.items() if value is not None}


@contextmanager
def running_provider(key: RSAPrivateKey) -> Iterator[Provider]:
    provider = Provider(key=key)
    server = make_server("127.0.0.1", 0, _application(provider))
    provider.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _application(provider: Provider) -> Flask:
    app = Flask("provider")

    @app.before_request
    def note() -> AnyResponse | None:
        provider.paths.append(request.path)
        return Response(status=500) if request.path in provider.broken_paths else None

    @app.get("/.well-known/openid-configuration")
    def discovery() -> AnyResponse:
        return jsonify(provider.document())

    @app.get("/keys")
    def keys() -> AnyResponse:
        public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(provider.key.public_key()))
        return jsonify({"keys": [{**public, "kid": "one", "use": "sig", "alg": "RS256"}]})

    @app.get("/authorize")
    def authorize() -> AnyResponse:
        asked = request.args
        assert asked["policy"] == "sign-in", "the endpoint's own query"
        assert asked["redirect_uri"] == REDIRECT_URI
        assert (asked["client_id"], asked["response_type"]) == (CLIENT_ID, "code")
        assert set(asked["scope"].split()) == {"openid", "email"}
        assert asked["code_challenge_method"] == "S256"
        provider.asked.append(dict(asked))
        if provider.refusal:
            answer = {"error": provider.refusal, "state": asked["state"]}
        else:
            code = secrets.token_urlsafe()
            provider.codes[code] = dict(asked)
            answer = {"code": code, "state": asked["state"]}
        return redirect(f"{REDIRECT_URI}?{urlencode(answer)}")

    @app.post("/token")
    def token() -> AnyResponse:
        if provider.token_reply is not None:
            return provider.token_reply
        form = parse_qs(request.get_data(as_text=True))
        if not _is_client(form):
            return _error("invalid_client", 401)
        asked = provider.codes.pop(form["code"][0], None)
        if asked is None or asked["code_challenge"] != _challenge(form["code_verifier"][0]):
            return _error("invalid_grant", 400)
        id_token = provider.id_token(asked["nonce"])
        return jsonify({"access_token": "opens-userinfo", "id_token": id_token})

    @app.get("/userinfo")
    def user_info() -> AnyResponse:
        assert request.headers["Authorization"] == "Bearer opens-userinfo"
        honest = {"sub": "4711", "email": EMAIL, "email_verified": True}
        return jsonify(over(honest, provider.user_info))

    return app


def _is_client(form: dict[str, list[str]]) -> bool:
    """By the header, as the standard has it where a provider says nothing; or by the form."""
    if (given := request.authorization) is not None:
        pair = urlencode({str(given.username): str(given.password)}, safe="%+")
        return parse_qs(pair) == {CLIENT_ID: [CLIENT_SECRET]}
    return (form.get("client_id"), form.get("client_secret")) == ([CLIENT_ID], [CLIENT_SECRET])


def _challenge(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _error(code: str, status: int) -> AnyResponse:
    answer = jsonify({"error": code, "error_description": f"not {CLIENT_SECRET}"})
    answer.status_code = status
    return answer


def path_of(url: str) -> str:
    """Path and query, as a test's client takes them."""
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}"
