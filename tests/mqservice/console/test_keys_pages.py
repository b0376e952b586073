"""Keys and members in the console: shown once, rotated, revoked; who may, and who finds nothing."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from pytest_django import Settings

from mqservice.accounts.access import find_access_key, find_principal
from mqservice.accounts.models import ApiKey, AuditEntry, Invitation, Member, Role, User
from mqservice.accounts.services import set_role
from mqservice.lib.api_keys import parse_api_key
from mqservice.topics.services import TopicChange, put_topic
from tests.people import People, bearer

NEW = "/console/acme/new-key"
ORDER = {
    "name": "billing worker",
    "kind": "api",
    "place": "acme",
    "role": "developer",
    "scopes": ["produce", "consume"],
    "patterns": "topic/orders*\ngroup/billing",
    "expires_in": "90d",
}
KEY = re.compile(r"mqk_[0-9A-Za-z]{46}")


@pytest.fixture
def developer(people: People) -> Client:
    set_role(people.acme.tenant, people.bob, Role.DEVELOPER)
    client = Client()
    client.force_login(people.bob)
    return client


def made(client: Client, **changes: object) -> str:
    """The text of a new key, from the page that shows it."""
    answer = client.post(NEW, ORDER | changes)
    assert answer.status_code == 201, answer.content
    found = set(KEY.findall(answer.content.decode()))
    (text,) = found
    return str(text)


def row_of(text: str) -> ApiKey:
    key = parse_api_key(text)
    assert key is not None
    return ApiKey.objects.get(public_id=key.public_id)


def test_key_is_shown_once_works_and_is_audited(people: People, alice: Client) -> None:
    text = made(alice)
    principal = find_principal(bearer(text))
    assert principal is not None
    assert [grant.text for grant in principal.grants] == [
        "consume:group/billing", "consume:topic/orders*",
        "produce:group/billing", "produce:topic/orders*",
    ]  # fmt: skip
    assert principal.namespace == "acme"
    row = row_of(text)
    assert row.expires_at is not None
    assert row.creator == "user:alice"
    for path in ("/console/acme/keys", f"/console/acme/keys/{row.public_id}", NEW):
        page = alice.get(path).content.decode()
        assert text not in page
        assert text[12:40] not in page
    entry = AuditEntry.objects.get(action="key.create")
    assert (entry.actor, entry.target) == ("user:alice", f"keys/{row.public_id}")


def test_access_key_is_shown_once_with_its_id(people: People, alice: Client) -> None:
    answer = alice.post(NEW, ORDER | {"kind": "access"})
    assert answer.status_code == 201
    page = answer.content.decode()
    (secret,) = set(re.findall(r"mqs_[A-Za-z0-9_-]{40}", page))
    row = ApiKey.objects.get(name=ORDER["name"])
    assert f"AWS_ACCESS_KEY_ID={row.public_id}" in page
    principal = find_access_key(row.public_id.encode())
    assert principal is not None
    assert [each.value.decode() for each in principal.signing_secrets] == [secret]
    path = f"/console/acme/keys/{row.public_id}"
    for shown in ("/console/acme/keys", path, "/console/acme/quick-start"):
        text = alice.get(shown).content.decode()
        assert row.public_id in text
        assert "mqk_MQAK" not in text
        assert secret not in text
    rotated = alice.post(f"{path}/rotate", {"overlap": "0ms"}).content.decode()
    assert set(re.findall(r"mqs_[A-Za-z0-9_-]{40}", rotated)) != {secret}


@pytest.mark.parametrize(
    ("kind", "advice"), [("api", "stored under a former"), ("access", "Rotate the key before")]
)
def test_key_of_a_former_pepper_is_marked_until_it_is_rotated(
    people: People, alice: Client, settings: Settings, kind: str, advice: str
) -> None:
    alice.post(NEW, ORDER | {"kind": kind})
    path = f"/console/acme/keys/{ApiKey.objects.get(name=ORDER['name']).public_id}"
    pages = ("/console/acme/keys?q=billing", path)
    settings.MQ_KEY_PEPPER_FALLBACKS = [settings.MQ_KEY_PEPPER]
    assert all(b"former pepper" not in alice.get(page).content for page in pages)

    settings.MQ_KEY_PEPPER = "another pepper of at least 32 characters"

    assert all(b">former pepper<" in alice.get(page).content for page in pages)
    assert advice in alice.get(path).content.decode()
    alice.post(f"{path}/rotate", {"overlap": "0ms"})
    assert all(b"former pepper" not in alice.get(page).content for page in pages)


def test_ready_command_sends_to_a_topic_that_the_key_may_reach(
    people: People, engine: str, alice: Client
) -> None:
    put_topic(people.acme, "a-first", TopicChange())
    put_topic(people.acme, "orders-eu", TopicChange())
    page = alice.post(NEW, ORDER).content.decode()
    assert "/v1/ns/acme/topics/orders-eu/messages" in page
    assert "a-first" not in page


@pytest.mark.parametrize(
    ("change", "field", "told"),
    [
        ({"patterns": "orders**"}, "patterns", "pattern"),
        ({"expires_in": "soon"}, "expires_in", "duration"),
        ({"expires_in": "99999d"}, "expires_in", "must be"),
        ({"role": "viewer"}, "scopes", "does not permit consume"),
        ({"role": "emperor"}, "role", "not one of the available choices"),
        ({"place": "rival"}, "place", "not one of the available choices"),
    ],
)
def test_fault_of_a_key_is_reported_at_its_field_and_nothing_is_made(
    people: People, alice: Client, change: dict[str, str], field: str, told: str
) -> None:
    count = ApiKey.objects.count()
    answer = alice.post(NEW, ORDER | change)
    assert answer.status_code == 422
    text = answer.content.decode()
    assert told in text[text.index(f'id="id_{field}_error"') :][:300]
    assert ApiKey.objects.count() == count


def test_rotated_key_has_two_secrets_for_a_while_and_then_one(
    people: People, alice: Client
) -> None:
    first = made(alice)
    path = f"/console/acme/keys/{row_of(first).public_id}/rotate"
    answer = alice.post(path, {"overlap": "1d"})
    second = next(iter(KEY.findall(answer.content.decode())))
    assert second != first
    assert find_principal(bearer(first)) is not None
    assert find_principal(bearer(second)) is not None
    again = alice.post(path, {"overlap": "1d"})
    assert again.status_code == 422
    assert b"two secrets" in again.content
    third = KEY.findall(alice.post(path, {"overlap": "0ms"}).content.decode())[0]
    assert find_principal(bearer(first)) is find_principal(bearer(second)) is None
    assert find_principal(bearer(third)) is not None
    assert alice.get(path).status_code == 302  # loaded again, it makes no fourth


def test_key_is_revoked_once_its_name_was_typed(people: People, alice: Client) -> None:
    text = made(alice)
    path = f"/console/acme/keys/{row_of(text).public_id}/revoke"
    wrong = alice.post(path, {"confirm": "billing"})
    assert wrong.status_code == 422
    assert b"This does not match the name of the key." in wrong.content
    assert find_principal(bearer(text)) is not None
    assert alice.post(path, {"confirm": "billing worker"}).status_code == 302
    assert find_principal(bearer(text)) is None
    assert b"revoked" in alice.get("/console/acme/keys?q=billing").content


def test_keys_are_paged_and_filtered(people: People, alice: Client) -> None:
    ApiKey.objects.bulk_create(
        ApiKey(
            tenant=people.acme.tenant, name=f"many-{index:03}", public_id=f"Many{index:04}",
            secret_mac=bytes(32), pepper_version=1, last4="abcd", scopes=["produce"],
        )
        for index in range(60)
    )  # fmt: skip
    ApiKey.objects.filter(name="many-007").update(revoked_at=people.acme.created_at)
    names = re.compile(r'class="name" href="[^"]*" title="([^"]*)"')
    first = names.findall(alice.get("/console/acme/keys?q=many").content.decode())
    assert first == [f"many-{index:03}" for index in range(59, 9, -1)]
    rest = alice.get("/console/acme/keys?q=many&before=Many0010").content.decode()
    assert names.findall(rest) == [f"many-{index:03}" for index in range(9, -1, -1)]
    ended = alice.get("/console/acme/keys?q=many&state=ended").content.decode()
    assert names.findall(ended) == ["many-007"]
    active = names.findall(alice.get("/console/acme/keys?state=active&q=00").content.decode())
    assert "many-007" not in active


def test_pages_ask_no_more_of_many(
    people: People, alice: Client, django_assert_max_num_queries: object
) -> None:
    User.objects.bulk_create(User(username=f"many-{index:03}") for index in range(120))
    users = User.objects.filter(username__startswith="many-")
    Member.objects.bulk_create(
        Member(tenant=people.acme.tenant, user=user, role="viewer") for user in users
    )
    alice.get("/console/acme/topics")  # the counts of the navigation are remembered after it
    for path, count in (("members", 9), ("keys", 8), ("audit", 8), ("alerts", 8)):
        with django_assert_max_num_queries(count):  # type: ignore[operator]  # pytest-django's
            assert alice.get(f"/console/acme/{path}").status_code == 200
    assert "many-099" not in alice.get("/console/acme/members?after=many-110").content.decode()


PAGES = ["keys", "new-key", "invite", "members/bob/remove", "audit", "audit.csv"]
ORDERS = [
    "new-key", "invite", "members/bob/role", "members/bob/remove", "quick-start/key",
]  # fmt: skip


def test_viewer_and_developer_see_no_action_and_are_refused_each(
    people: People, alice: Client, developer: Client
) -> None:
    key_id = row_of(made(alice)).public_id
    orders = [*ORDERS, f"keys/{key_id}/rotate", f"keys/{key_id}/revoke", "invitations/x/withdraw"]
    for role in (Role.DEVELOPER, Role.VIEWER):
        set_role(people.acme.tenant, people.bob, role)
        seen = developer.get("/console/acme/members").content.decode()
        seen += developer.get("/console/acme/").content.decode()
        for word in ("/invite", "/remove", "/role", "/keys", "/audit", "Pending invitations"):
            assert word not in seen
        for path in [*PAGES, f"keys/{key_id}"]:
            assert developer.get(f"/console/acme/{path}").status_code == 403, path
        for path in orders:
            data = ORDER | {"confirm": "bob"}
            assert developer.post(f"/console/acme/{path}", data).status_code == 403, path
    assert Member.objects.get(user=people.bob).role == Role.VIEWER
    assert ApiKey.objects.get(public_id=key_id).revoked_at is None


def test_stranger_finds_nothing_and_changes_nothing(people: People, alice: Client) -> None:
    key_id = row_of(made(alice)).public_id
    stranger = Client()
    stranger.force_login(people.charlie)
    for path in [*PAGES, *ORDERS, "members", "usage", "alerts", f"keys/{key_id}"]:
        assert stranger.get(f"/console/acme/{path}").status_code in (404, 405), path
    for path in [*ORDERS, f"keys/{key_id}/rotate", f"keys/{key_id}/revoke"]:
        assert stranger.post(f"/console/acme/{path}", ORDER).status_code == 404, path
    # Through the own namespace neither.
    for path in (f"keys/{key_id}", "members/alice/remove"):
        assert stranger.get(f"/console/rival/{path}").status_code == 404
    assert stranger.post(f"/console/rival/keys/{key_id}/revoke").status_code == 404
    assert stranger.post("/console/rival/members/alice/role", {"role": "viewer"}).status_code == 404


def test_member_gets_another_role_and_is_removed_by_name(people: People, alice: Client) -> None:
    path = "/console/acme/members/bob"
    changed = alice.post(f"{path}/role", {"role": "developer", "revision": "1"}, follow=True)
    assert b"bob now has the role developer." in changed.content
    late = alice.post(f"{path}/role", {"role": "viewer", "revision": "1"}, follow=True)
    assert b"Someone else has changed this member" in late.content
    assert Member.objects.get(user=people.bob).role == Role.DEVELOPER
    assert alice.post(f"{path}/remove", {"confirm": "Bob"}).status_code == 422
    alice.post(f"{path}/remove", {"confirm": "bob"})
    assert not Member.objects.filter(user=people.bob).exists()


def test_last_owner_stays(people: People, alice: Client) -> None:
    told = alice.post("/console/acme/members/alice/role", {"role": "admin"}, follow=True)
    assert b"this is the last owner" in told.content
    told = alice.post("/console/acme/members/alice/remove", {"confirm": "alice"})
    assert told.status_code == 422
    assert Member.objects.get(user=people.alice).role == Role.OWNER


def test_admin_cannot_make_or_touch_an_owner(people: People, developer: Client) -> None:
    set_role(people.acme.tenant, people.bob, Role.ADMIN)
    page = developer.get("/console/acme/members").content.decode()
    assert "/members/alice/" not in page
    assert "<option>owner" not in page
    developer.post("/console/acme/members/alice/role", {"role": "viewer"})
    assert Member.objects.get(user=people.alice).role == Role.OWNER
    asked = {"email": "x@example.com", "role": "owner", "expires_in": "1d"}
    assert developer.post("/console/acme/invite", asked).status_code == 422
    assert developer.post(NEW, ORDER | {"role": "owner"}).status_code == 422


def test_invitation_is_shown_once_and_withdrawn(people: People, alice: Client) -> None:
    asked = {"email": "dora@example.com", "role": "viewer", "expires_in": "3d"}
    answer = alice.post("/console/acme/invite", asked)
    assert answer.status_code == 201
    assert re.search(r"/account/join/mqi_\w+/", answer.content.decode())
    page = alice.get("/console/acme/members").content.decode()
    assert "dora@example.com" in page
    assert "mqi_" not in page
    row = Invitation.objects.get()
    alice.post(f"/console/acme/invitations/{row.public_id}/withdraw")
    assert "dora@example.com" not in alice.get("/console/acme/members").content.decode()
    assert alice.post("/console/acme/invitations/none/withdraw").status_code == 404
    for wrong in ({"email": "nobody"}, {"expires_in": "9y"}, {"expires_in": "400d"}):
        assert alice.post("/console/acme/invite", asked | wrong).status_code == 422


def test_one_click_makes_a_key_a_topic_and_a_group(
    people: People, engine: str, alice: Client
) -> None:
    before = alice.get("/console/acme/quick-start").content.decode()
    assert "Create key" in before
    assert "Waiting for a message" not in before  # there is no topic yet
    answer = alice.post("/console/acme/quick-start/key")
    assert answer.status_code == 201
    page = answer.content.decode()
    (text,) = set(KEY.findall(page))
    assert page.count(text) >= 8  # in each of the commands
    assert "Waiting for a message in <b>orders</b>" in page
    principal = find_principal(bearer(text))
    assert principal is not None
    assert sorted(principal.scopes) == ["consume", "produce"]
    assert [topic.name for topic in people.acme.topics.all()] == ["orders"]
    assert [group.name for group in people.acme.groups.all()] == ["billing"]
    assert alice.get("/console/acme/quick-start/key").status_code == 302
    alice.post("/console/acme/quick-start/key")
    assert people.acme.topics.count() == people.acme.groups.count() == 1


def test_waiting_part_takes_no_other_address(people: People, alice: Client, bob: Client) -> None:
    part = "/console/acme/quick-start/arrived"
    for query in ("", "?topic=orders&since=1", "?topic=orders&since=x", "?since=" + "9" * 99):
        assert alice.get(part + query).status_code == 404
    assert bob.get(f"{part}?topic=orders&since=1").status_code == 403
