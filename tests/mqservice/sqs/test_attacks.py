"""Access keys under attack, through the whole face: whose they are, what they may, how they end."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from datetime import timedelta
from typing import Any

import httpx
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from django.utils import timezone

from mqservice.accounts.access import AccessKeyCache, Principal, find_access_key
from mqservice.accounts.key_services import revoke_key, rotate_key
from mqservice.accounts.models import ApiKey
from mqservice.accounts.scopes import Scope, parse_grants
from mqservice.lib.throttle import Throttle
from tests.mqservice.delivery.wait_until import wait_until
from tests.mqservice.sqs.conftest import REGION, Desk, Sqs

LIST = "AmazonSQS.ListQueues"
JSON_TYPE = "application/x-amz-json-1.0"


def refused(call: Any, **given: Any) -> str:  # Any: a method of boto3 and what it takes
    """The code that boto3 reads of it."""
    with pytest.raises(ClientError) as error:
        call(**given)
    return str(error.value.response["Error"]["Code"])


def signed_post(
    desk: Desk, key: tuple[str, str], body: bytes = b"{}", target: str = LIST
) -> dict[str, str]:
    """The headers of a signed request."""
    headers = {"X-Amz-Target": target, "Content-Type": JSON_TYPE}
    order = AWSRequest("POST", f"{desk.server.url}/sqs/", headers, data=body)
    SigV4Auth(Credentials(*key), "sqs", REGION).add_auth(order)
    return dict(order.headers.items())


def post(desk: Desk, headers: dict[str, str], body: bytes = b"{}") -> httpx.Response:
    return httpx.post(f"{desk.server.url}/sqs/", headers=headers, content=body, timeout=30)


def code_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["__type"].rpartition("#")[2]


def owner_of(key_id: str) -> Principal:
    principal = find_access_key(key_id.encode())
    assert principal is not None
    return principal


def test_a_queue_of_another_tenant_is_one_that_does_not_exist(desk: Desk, queue: str) -> None:
    stranger = desk.client(key=desk.key(desk.people.rival))
    codes = [
        refused(stranger.send_message, QueueUrl=queue, MessageBody="x"),
        refused(stranger.receive_message, QueueUrl=queue),
        refused(stranger.delete_message, QueueUrl=queue, ReceiptHandle="x"),
        refused(stranger.get_queue_attributes, QueueUrl=queue),
        refused(stranger.purge_queue, QueueUrl=queue),
        refused(stranger.delete_queue, QueueUrl=queue),
        refused(stranger.get_queue_url, QueueName="orders"),
    ]
    assert set(codes) == {"AWS.SimpleQueueService.NonExistentQueue"}, codes
    assert not stranger.list_queues().get("QueueUrls")


def test_a_revoked_key_ends_at_once_and_so_do_its_polls(desk: Desk, queue: str) -> None:
    key = desk.key()
    sqs = desk.client(key=key)
    codes: list[str] = []

    def poll() -> None:
        codes.append(refused(sqs.receive_message, QueueUrl=queue, WaitTimeSeconds=20))

    thread = threading.Thread(target=poll)
    watching = desk.server.context.caches.access_keys.watch._watching
    began = time.monotonic()
    thread.start()
    wait_until(lambda: key[0] in watching)
    revoke_key(owner_of(key[0]), key[0])
    thread.join(19)

    assert codes == ["InvalidClientTokenId"]
    assert time.monotonic() - began < 19, "before its wait was over"
    assert refused(sqs.list_queues) == "InvalidClientTokenId"
    assert refused(sqs.send_message, QueueUrl=queue, MessageBody="x") == "InvalidClientTokenId"


def test_an_expired_key_is_refused_also_when_it_expires_in_the_cache(desk: Desk) -> None:
    assert refused(desk.client(key=desk.key(expires_at=timezone.now())).list_queues) == (
        "InvalidClientTokenId"
    )
    key = desk.key(expires_at=timezone.now() + timedelta(seconds=2))
    sqs = desk.client(key=key)
    sqs.list_queues()
    expired = ApiKey.objects.get(public_id=key[0]).expires_at
    assert expired is not None
    wait_until(lambda: timezone.now() > expired)

    assert refused(sqs.list_queues) == "InvalidClientTokenId"


def test_a_rotated_secret_is_good_for_its_overlap_only(desk: Desk) -> None:
    first = desk.key()
    desk.client(key=first).list_queues()
    _, second = rotate_key(owner_of(first[0]), first[0], timedelta(hours=1))

    codes: set[str] = set()

    def works(secret: str) -> bool:
        try:
            desk.client(key=(first[0], secret)).list_queues()
        except ClientError as error:
            codes.add(error.response["Error"]["Code"])
            return False
        return True

    wait_until(lambda: works(second))
    assert works(first[1])
    _, third = rotate_key(owner_of(first[0]), first[0], timedelta())
    wait_until(lambda: works(third))
    assert [works(first[1]), works(second)] == [False, False]
    assert codes == {"SignatureDoesNotMatch"}


def test_scopes_hold_as_for_api_keys(desk: Desk, queue: str) -> None:
    producer = desk.client(key=desk.key(scopes=frozenset({Scope.PRODUCE})))
    producer.send_message(QueueUrl=queue, MessageBody="x")
    assert refused(producer.receive_message, QueueUrl=queue).endswith("AccessDenied")
    assert refused(producer.create_queue, QueueName="more").endswith("AccessDenied")
    elsewhere = desk.client(key=desk.key(scopes=frozenset(), grants=parse_grants(["produce:a*"])))
    assert refused(elsewhere.send_message, QueueUrl=queue, MessageBody="x").endswith("AccessDenied")


@pytest.mark.parametrize("change", [str.lower, str.swapcase, lambda text: text + "A"])
def test_an_id_that_differs_in_any_way_is_none(desk: Desk, change: Any) -> None:  # Any: a function
    key_id, secret = desk.key()
    desk.client(key=(key_id, secret)).list_queues()

    assert refused(desk.client(key=(change(key_id), secret)).list_queues) == "InvalidClientTokenId"


def test_api_keys_do_not_sign_and_access_keys_are_no_tokens(desk: Desk) -> None:
    key = desk.key()
    signed = signed_post(desk, key)
    assert post(desk, signed).status_code == 200
    for text in (f"Bearer {desk.people.acme_key}", "Bearer x", key[0]):
        answer = post(desk, signed | {"Authorization": text})
        assert code_of(answer) == (403, "MissingAuthenticationTokenException")
    for text in (key[0], f"Bearer {key[0]}", f"Bearer {key[1]}", signed["Authorization"]):
        for path in ("/v1/ns/acme/topics/orders/messages", "/v1/namespaces"):
            answer = httpx.get(desk.server.url + path, headers={"authorization": text})
            assert answer.status_code == 401, path


def test_huge_headers_are_refused(desk: Desk) -> None:
    signed = signed_post(desk, desk.key())
    for filler, status in ((5_000, 400), (60_000, 400), (80_000, 431)):
        header = signed["Authorization"] + "," * filler
        answer = post(desk, signed | {"Authorization": header})
        assert answer.status_code == status, answer.content


@pytest.fixture
def lookups(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The ids that PostgreSQL is asked for."""
    asked: list[bytes] = []
    cache = desk.server.context.caches.access_keys
    assert type(cache) is AccessKeyCache
    find = cache._cache._find

    async def counting(key_id: bytes) -> Principal | None:
        asked.append(key_id)
        return await find(key_id)

    monkeypatch.setattr(cache._cache, "_find", counting)
    return asked


def test_bad_signatures_cost_one_query_and_then_none(
    desk: Desk, lookups: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk.server.context.failures._throttle, "limit", 0)
    key = desk.key()
    wrong = signed_post(desk, (key[0], "wrong"))
    with httpx.Client(base_url=desk.server.url) as client:
        for number in range(60):
            body = b'{"MaxResults":%d}' % number
            assert client.post("/sqs/", headers=wrong, content=body).status_code == 403
            letters = chr(65 + number % 26) + chr(65 + number // 26)
            forged = signed_post(desk, (f"MQAKABCDEFGH23{letters}", "x"))
            assert client.post("/sqs/", headers=forged, content=b"{}").status_code == 403

    assert lookups == [key[0].encode()]
    assert post(desk, signed_post(desk, key)).status_code == 200


def test_after_many_bad_signatures_an_address_waits_and_good_keys_do_not(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = desk.server.context.failures
    monkeypatch.setattr(failures, "_throttle", Throttle("wrong-key-sqs", limit=3, window_s=60))
    monkeypatch.setattr(failures, "_until_ms", {})
    key = desk.key()
    wrong = signed_post(desk, (key[0], "wrong"))

    codes = [code_of(post(desk, wrong))[1] for _ in range(5)]

    assert codes == ["InvalidSignatureException"] * 3 + ["RequestThrottled"] * 2
    unknown = post(desk, signed_post(desk, ("MQAKAAAAAAAAAAAA", "x")))
    assert code_of(unknown)[1] == "RequestThrottled"
    assert post(desk, signed_post(desk, key)).status_code == 200
    assert post(desk, signed_post(desk, desk.key())).status_code == 200


def test_a_connection_is_a_strangers_until_a_signature_is_good(desk: Desk) -> None:
    strangers = desk.server.application.strangers
    key = desk.key()
    with httpx.Client(base_url=desk.server.url) as client:
        wrong = signed_post(desk, (key[0], "wrong"))
        assert client.post("/sqs/", headers=wrong, content=b"{}").status_code == 403
        assert len(strangers) == 1
        good = signed_post(desk, key)
        assert client.post("/sqs/", headers=good, content=b"{}").status_code == 200
        assert len(strangers) == 0


@pytest.mark.parametrize("length", [100, 1 << 20])
@pytest.mark.parametrize("is_signed", [True, False])
def test_no_body_is_waited_for_without_a_key(desk: Desk, length: int, is_signed: bool) -> None:
    url = httpx.URL(desk.server.url)
    headers = signed_post(desk, ("MQAKAAAAAAAAAAAA", "x"))
    if not is_signed:
        del headers["Authorization"]
    connection = http.client.HTTPConnection(url.host, url.port or 80, timeout=20)
    connection.putrequest("POST", "/sqs/")
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.putheader("Content-Length", str(length))
    connection.endheaders(b"x")

    answer = connection.getresponse()

    assert answer.status == 403
    connection.close()


def test_one_signature_is_good_for_its_own_body_host_and_action(desk: Desk) -> None:
    key = desk.key()
    signed = signed_post(desk, key)
    assert post(desk, signed).status_code == 200
    changed = [
        (signed | {"X-Amz-Target": "AmazonSQS.CreateQueue"}, b"{}"),
        (signed | {"Host": f"localhost:{desk.server.port}"}, b"{}"),
        (signed, b"{} "),
    ]
    for headers, body in changed:
        assert code_of(post(desk, headers, body)) == (403, "InvalidSignatureException")


def test_garbage_where_a_signature_is_expected_is_answered(desk: Desk) -> None:
    with socket.create_connection(("127.0.0.1", desk.server.port), timeout=20) as raw:
        raw.sendall(
            b"POST /sqs/?X-Amz-Algorithm=%FF&X-Amz-Credential=%00 HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"X-Amz-Target: AmazonSQS.\xff\r\nContent-Length: 0\r\n\r\n"
        )
        assert raw.recv(100).startswith(b"HTTP/1.1 40")


def test_who_has_no_scope_learns_nothing_of_queues(desk: Desk, queue: str, sqs: Sqs) -> None:
    nobody = desk.client(key=desk.key(scopes=frozenset()))
    for name in (queue, queue.replace("orders", "absent")):
        assert refused(nobody.send_message, QueueUrl=name, MessageBody="x").endswith("AccessDenied")
