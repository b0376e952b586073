"""Talks to the OpenID provider, and believes of its replies what is proved.

    begin_sign_in ──▶ discovery ──▶ the provider's own page ──▶ finish_sign_in
    finish_sign_in ─▶ state ─▶ code for tokens ─▶ ID token: signature, issuer, audience, nonce
                   ─▶ SocialAdapter, which decides whose account it is

The flow is allauth's, with PKCE. What is ours is stricter than allauth: the issuer's own name is
checked, a signature is always required, the reply to one browser's request is good for no other,
and only the address and the subject are kept. Sizes are limited and redirects are not followed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import time
from typing import Any, Final
from urllib.parse import quote_plus, urlsplit

import jwt
import requests
from allauth.account.models import EmailAddress
from allauth.account.utils import get_next_redirect_url
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.models import SocialToken
from allauth.socialaccount.providers.base.constants import AuthProcess
from allauth.socialaccount.providers.oauth2.client import OAuth2Client, OAuth2Error
from allauth.socialaccount.providers.oauth2.utils import generate_code_challenge
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from mqservice.env import is_private_url
from mqservice.people.single_sign_on import CONFIRMATION, PROVIDER_ID, Failure

JsonObject = dict[str, Any]  # Any: a provider may say anything that JSON can

REPLY_BYTES_MAX: Final = 256 * 1024
_CHUNK_BYTES: Final = 16 * 1024
_CLOCK_LEEWAY_S: Final = 60
_OK: Final = 200
_SERVER_ERROR: Final = 500
_WELL_KNOWN: Final = "/.well-known/openid-configuration"
# By a key that only the provider has; "none" and those of a shared secret are not among them.
_ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
_ERROR_CODE: Final = re.compile(r"[a-z_]{1,40}", re.ASCII)
_USED_CODE: Final = "invalid_grant"
GOOGLE: Final = "https://accounts.google.com"
# Google sends ``auth_time`` only to who asks by name, whatever ``max_age`` is.
_CLAIMS: Final = json.dumps({"id_token": {"auth_time": {"essential": True}}})


class SignInFailed(OAuth2Error):  # type: ignore[misc]  # allauth has no types
    """Nobody is signed in. ``error`` is for the log: never a text that holds what was sent."""

    def __init__(self, failure: Failure, error: str) -> None:
        super().__init__(error)
        self.failure = failure


def begin_sign_in(request: HttpRequest) -> HttpResponse:
    """Off to the provider. One request to it. Raises ``SignInFailed``."""
    return _serve(OAuth2LoginView, request)


def finish_sign_in(request: HttpRequest) -> HttpResponse:
    """Back from the provider. Up to four requests to it. Raises ``SignInFailed``."""
    return _serve(OAuth2CallbackView, request)


def begin_confirmation(request: HttpRequest, next_url: str) -> HttpResponse:
    """Off to the provider, which has to ask the user anew. One request to it. Raises
    ``ImmediateHttpResponse`` with the page that explains a failure.
    """
    provider = get_adapter().get_provider(request, PROVIDER_ID)
    response: HttpResponse = provider.redirect(
        request,
        process=CONFIRMATION,
        next_url=next_url,
        data={"began_at": int(time.time())},
        auth_params={
            # Google knows no ``login``; this one makes it show a page, where one can sign in anew.
            "prompt": "select_account" if settings.MQ_OIDC_ISSUER == GOOGLE else "login",
            "max_age": "0",
            "claims": _CLAIMS,
        },
    )
    return response


def was_asked_anew(login: Any) -> bool:  # Any: allauth has no types
    """Whether the provider says so of the user of a confirmation. Clocks may differ."""
    said, began_at = login.auth_time, login.state["data"]["began_at"]
    return isinstance(said, int) and said >= began_at - _CLOCK_LEEWAY_S


def _serve(view: Any, request: HttpRequest) -> HttpResponse:  # Any: allauth has no types
    response: HttpResponse = view.adapter_view(OpenIdAdapter(request, PROVIDER_ID))(request)
    return response


class OpenIdClient(OAuth2Client):  # type: ignore[misc]  # allauth has no types
    """Changes a code for tokens."""

    def get_redirect_url(self, authorization_url: str, scope: list[str], extra: JsonObject) -> str:
        """The endpoint may have a query of its own."""
        query = super().get_redirect_url("", scope, extra)[1:]
        return f"{authorization_url}{'&' if '?' in authorization_url else '?'}{query}"

    def get_access_token(
        self, code: str, pkce_code_verifier: str | None = None, extra_data: JsonObject | None = None
    ) -> JsonObject:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.callback_url,
            "code_verifier": pkce_code_verifier,
        }
        client, secret = self.consumer_key, self.consumer_secret
        auth = None
        if self.basic_auth:
            auth = requests.auth.HTTPBasicAuth(quote_plus(client), quote_plus(secret))
        else:
            form |= {"client_id": client, "client_secret": secret}
        status, reply = _fetch("POST", self.access_token_url, data=form, auth=auth)
        if status == _OK:
            return reply
        if status >= _SERVER_ERROR:
            raise SignInFailed(Failure.UNREACHABLE, f"the token endpoint replied {status}")
        code_of_error = str(reply.get("error"))
        if code_of_error == _USED_CODE:
            raise SignInFailed(Failure.EXPIRED, _USED_CODE)
        if _ERROR_CODE.fullmatch(code_of_error) is None:
            code_of_error = "without a reason"
        raise SignInFailed(
            Failure.MISCONFIGURED, f"the token endpoint replied {status} {code_of_error}"
        )


class OpenIdAdapter(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]  # allauth has no types
    """The provider's addresses and what it says of who signed in. Made anew for each request."""

    client_class = OpenIdClient

    def __init__(self, request: HttpRequest, provider_id: str) -> None:
        super().__init__(request, provider_id)
        self._expected_nonce = ""

    @property
    def openid_config(self) -> JsonObject:
        """Not cached: then a key or an endpoint that has changed is known at once."""
        if not hasattr(self, "_openid_config"):
            issuer = settings.MQ_OIDC_ISSUER
            status, found = _fetch("GET", issuer.rstrip("/") + _WELL_KNOWN)
            if status != _OK:
                raise SignInFailed(Failure.UNREACHABLE, f"the discovery document is a {status}")
            if found.get("issuer") != issuer:
                raise SignInFailed(
                    Failure.MISCONFIGURED, "the discovery document is of another MQ_OIDC_ISSUER"
                )
            self._openid_config = found
        config: JsonObject = self._openid_config
        return config

    def _endpoint(self, name: str) -> str:
        url = self.openid_config.get(name)
        try:
            if isinstance(url, str) and is_private_url(urlsplit(url)):
                return url
        except ValueError:  # no URL at all
            pass
        raise SignInFailed(Failure.MISCONFIGURED, f"the discovery document has no safe {name}")

    @property
    def access_token_url(self) -> str:
        return self._endpoint("token_endpoint")

    @property
    def authorize_url(self) -> str:
        return self._endpoint("authorization_endpoint")

    @property
    def basic_auth(self) -> bool:
        """As the standard has it where the provider says nothing."""
        name = "token_endpoint_auth_methods_supported"
        return "client_secret_post" not in self.openid_config.get(name, [])

    def get_callback_url(self, request: HttpRequest, app: object) -> str:
        """The address by which the service is known, whatever Host was sent."""
        return f"{settings.MQ_BASE_URL}{reverse('people:single_sign_on_callback')}"

    def get_access_token_data(
        self, request: HttpRequest, app: object, client: OpenIdClient, pkce_code_verifier: str
    ) -> JsonObject:
        self._expected_nonce = _nonce_of(pkce_code_verifier)
        reply: JsonObject = super().get_access_token_data(request, app, client, pkce_code_verifier)
        return reply

    def parse_token(self, data: JsonObject) -> SocialToken:
        token = data.get("access_token")
        if not isinstance(token, str):
            raise SignInFailed(Failure.INVALID, "no access token")
        return SocialToken(token=token)

    def complete_login(
        self, request: HttpRequest, app: object, token: SocialToken, **more: JsonObject
    ) -> Any:  # Any: allauth has no types
        """Raises ``SignInFailed`` where the ID token does not prove who signed in."""
        claims = self._proved(more["response"].get("id_token"))
        if "email" not in claims and "userinfo_endpoint" in self.openid_config:
            said = self._fetch_user_info(token.token)
            if said.get("sub") != claims["sub"]:
                raise SignInFailed(Failure.INVALID, "the user info is of another subject")
            claims |= {name: said.get(name) for name in ("email", "email_verified")}
        login = self.get_provider().sociallogin_from_response(request, claims)
        login.auth_time = claims.get("auth_time")
        return login

    def _proved(self, id_token: object) -> JsonObject:
        if not isinstance(id_token, str):
            raise SignInFailed(Failure.INVALID, "no ID token")
        try:
            claims: JsonObject = jwt.decode(
                id_token,
                key=self._key_of(id_token),
                algorithms=list(_ALGORITHMS),
                audience=settings.MQ_OIDC_CLIENT_ID,
                issuer=settings.MQ_OIDC_ISSUER,
                leeway=_CLOCK_LEEWAY_S,
                options={"require": ["iss", "sub", "aud", "exp", "iat", "nonce"]},
            )
        except jwt.PyJWTError as exc:
            raise SignInFailed(Failure.INVALID, f"ID token: {type(exc).__name__}") from exc
        nonce = str(claims["nonce"]).encode()
        if not hmac.compare_digest(nonce, self._expected_nonce.encode()):
            raise SignInFailed(Failure.INVALID, "ID token: of another request")
        if claims.get("azp", settings.MQ_OIDC_CLIENT_ID) != settings.MQ_OIDC_CLIENT_ID:
            raise SignInFailed(Failure.INVALID, "ID token: made for another client")
        return claims

    def _key_of(self, id_token: str) -> jwt.PyJWK:
        """The one that the token names; of a provider with a single key, that."""
        status, found = _fetch("GET", self._endpoint("jwks_uri"))
        if status != _OK:
            raise SignInFailed(Failure.UNREACHABLE, f"the provider's keys are a {status}")
        try:
            keys = jwt.PyJWKSet.from_dict(found).keys
        except (jwt.PyJWTError, AttributeError, TypeError) as exc:
            raise SignInFailed(Failure.INVALID, "the provider's keys cannot be read") from exc
        name = jwt.get_unverified_header(id_token).get("kid")
        keys = [key for key in keys if key.public_key_use in ("sig", None)]
        named = [key for key in keys if key.key_id == name] if name else keys
        if len(named) != 1:
            raise SignInFailed(Failure.INVALID, f"{len(named)} keys of the ID token")
        return named[0]

    def _fetch_user_info(self, access_token: str) -> JsonObject:
        status, said = _fetch(
            "GET",
            self._endpoint("userinfo_endpoint"),
            headers={"Authorization": f"Bearer {access_token}"},
        )
        if status != _OK:
            raise SignInFailed(Failure.UNREACHABLE, f"the user info is a {status}")
        return said


class OpenIdProvider(OpenIDConnectProvider):  # type: ignore[misc]  # allauth has no types
    """What is asked for, and which of the claims are used: subject and address."""

    id = PROVIDER_ID
    oauth2_adapter_class = OpenIdAdapter

    def get_default_scope(self) -> list[str]:
        return ["openid", "email"]

    def get_redirect_from_request_kwargs(self, request: HttpRequest) -> JsonObject:
        """Where to go on, and nothing else that a link to here could say."""
        return {"process": AuthProcess.LOGIN, "next_url": get_next_redirect_url(request)}

    def get_pkce_params(self) -> JsonObject:
        """With the nonce, which the ID token has to repeat."""
        params: JsonObject = generate_code_challenge()
        return {**params, "nonce": _nonce_of(params["code_verifier"])}

    def extract_uid(self, data: JsonObject) -> str:
        """A subject is one person's at its issuer only. Hashed, because it may be a long text."""
        text = json.dumps([data["iss"], data["sub"]])
        return hashlib.sha256(text.encode()).hexdigest()

    def extract_extra_data(self, data: JsonObject) -> JsonObject:
        return {name: data.get(name) for name in ("iss", "sub", "email")}

    def extract_common_fields(self, data: JsonObject) -> JsonObject:
        return {"email": _text(data.get("email"))}

    def extract_email_addresses(self, data: JsonObject) -> list[EmailAddress]:
        """Verified is what the provider says is true, and not what merely looks like it."""
        email, is_verified = _text(data.get("email")), data.get("email_verified") is True
        return [EmailAddress(email=email, verified=is_verified, primary=True)] if email else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _nonce_of(code_verifier: str) -> str:
    """Tells nothing of the verifier, which stays in the session."""
    digest = hashlib.sha256(b"nonce " + code_verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _fetch(method: str, url: str, **more: Any) -> tuple[int, JsonObject]:  # Any: as requests has it
    """Status and JSON object of a reply; of an error without one, an empty object.

    Raises ``SignInFailed`` UNREACHABLE. The database connection is returned first, so that a slow
    provider holds none of the few that all pages share.
    """
    if not connection.in_atomic_block:
        connection.close()
    more.setdefault("auth", _no_password)
    try:
        with (
            get_adapter().get_requests_session() as session,
            session.request(method, url, stream=True, allow_redirects=False, **more) as response,
        ):
            body = bytearray()
            for chunk in response.iter_content(_CHUNK_BYTES):
                body += chunk
                if len(body) > REPLY_BYTES_MAX:
                    raise SignInFailed(Failure.UNREACHABLE, "a reply is too large")
            status = int(response.status_code)
    except requests.RequestException as exc:
        raise SignInFailed(Failure.UNREACHABLE, type(exc).__name__) from exc
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if isinstance(found, dict):
        return status, found
    if status == _OK:
        raise SignInFailed(Failure.UNREACHABLE, "a reply is no JSON object")
    return status, {}


def _no_password(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Else a ~/.netrc of the service's user would be asked for one."""
    return request
