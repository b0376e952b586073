"""Sessions that are not resumed: tokens of somebody else, and nonsense."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from mqservice.accounts.access import Principal
from mqservice.accounts.scopes import Scope
from tests.mqservice.delivery.peers import Peer
from tests.mqservice.delivery.resume.resuming import (
    TTL_MS,
    fill,
    resume_of,
    sever,
    subscribed,
)
from tests.mqservice.delivery.serving import Server

pytestmark = pytest.mark.real_engine(queue_count=2)


@pytest.mark.parametrize("how", ["forged", "foreign", "another session", "namespace", "scope"])
def test_a_token_of_someone_else_gives_a_new_session(
    server: Server, api: httpx.Client, topic: str, group: str, how: str
) -> None:
    key = server.key(namespace=None)
    url = f"{server.ws_url}?ns="
    fill(api, topic, 2)
    with Peer(server, key=key, url=f"{url}acme", resume_ttl_ms=TTL_MS) as peer:
        subscribed(peer, topic, group, 2)
        sever(peer)
    resume, intruder, ns = resume_of(peer), key, "acme"
    if how == "forged":
        token: str = resume["token"]
        resume["token"] = token[:-2] + ("A" if token[-2] != "A" else "B") + token[-1]
    elif how == "foreign":
        intruder = server.key(namespace=None)
    elif how == "another session":
        with Peer(server, key=key, url=f"{url}acme", resume_ttl_ms=TTL_MS) as second:
            resume["token"] = second.welcome["resume_token"]
    elif how == "namespace":
        ns = "emca"
    else:
        server.keys[key.encode()] = _without(server, key, Scope.CONSUME)
        server.call(server.context.caches.keys.clear)
    with Peer(server, key=intruder, url=url + ns, resume=resume, resume_ttl_ms=TTL_MS) as other:
        assert other.welcome["resumed"] is False
        assert other.welcome["session"] != peer.welcome["session"]
        assert other.ask("ack", sid=1, t=[1])["code"] == "NOT_FOUND"
    if how != "scope":
        with Peer(server, key=key, url=f"{url}acme", resume=resume_of(peer)) as owner:
            assert owner.welcome["resumed"] is True, "and the owner still has it"


def _without(server: Server, key: str, scope: Scope) -> Principal:
    principal = server.keys[key.encode()]
    return replace(principal, scopes=principal.scopes - {scope})


@pytest.mark.parametrize("token", ["", "=", "é", "A" * 22, "A" * 10_000, "\0", "_" * 64])
def test_nonsense_is_no_token(server: Server, key: str, token: str) -> None:
    for session in ("s_1", "", "\0", "x" * 1_000):
        with Peer(server, key=key, resume={"session": session, "token": token}) as peer:
            assert peer.welcome["resumed"] is False


def test_have_has_bounds(server: Server, key: str) -> None:
    many = [[1, 0, list(range(1_001))]]
    subscriptions = [[sid, 0, []] for sid in range(65)]
    for have, pointer in ((many, "/resume/have/0/2"), (subscriptions, "/resume/have")):
        with Peer(server, key=key, hello=False) as peer:
            err = peer.ask("hello", resume={"session": "s", "token": "t", "have": have})
            assert (err["code"], err["msg"].endswith(f"at {pointer}")) == ("BAD_REQUEST", True)
    with Peer(server, key=key, hello=False) as peer:
        err = peer.ask("hello", resume_ttl_ms=300_001)
        assert (err["code"], "0 to 300000" in err["msg"]) == ("BAD_REQUEST", True)
