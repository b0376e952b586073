"""Cron schedules in the console: tried, made, changed, paused, sent, deleted; who may."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.utils import translation

from mqservice.accounts.models import ApiKey, AuditEntry, Member, Role
from mqservice.console.schedules.cron_words import describe_cron
from mqservice.masking.models import MaskRule
from mqservice.schedules.models import Schedule
from mqservice.topics.models import Topic
from tests.mqservice.console.reading import why_not
from tests.mqservice.schedules.conftest import Desk, open_desk
from tests.people import People

ROOT = "/console/acme"
NEW = f"{ROOT}/new-schedule"
ONE = f"{ROOT}/schedules/nightly"
FORM = {
    "name": "nightly", "cron": "30 9 * * mon-fri", "time_zone": "Europe/Berlin",
    "catch_up": "latest", "topic": "ticks", "description": "the <b>report</b>",
    "body": '{"n": 1}', "is_json": "on", "tag": "report", "keys": "a, b", "message_group": "",
    "queue": "", "properties": "source=cron",
}  # fmt: skip


@pytest.fixture
def desk(people: People, engine: str) -> Desk:
    return open_desk(people.acme)


@pytest.fixture
def alice(people: People, client: Client, desk: Desk) -> Client:
    """A developer."""
    client.force_login(people.alice)
    Member.objects.filter(user=people.alice).update(role=Role.DEVELOPER.value)
    return client


def changed(**fields: str) -> dict[str, str]:
    return {name: value for name, value in {**FORM, **fields}.items() if name != "name"}


def test_a_schedule_says_by_name_which_key_created_it(people: People, alice: Client) -> None:
    key = ApiKey.objects.filter(tenant=people.acme.tenant).first()
    assert key is not None
    ApiKey.objects.filter(pk=key.pk).update(name="deployment")
    alice.post(NEW, FORM)
    assert ">alice</dd>" in alice.get(ONE).content.decode()
    Schedule.objects.update(created_by=f"key:{key.public_id}")
    assert ">deployment</dd>" in alice.get(ONE).content.decode()


def test_a_schedule_is_made_paused_sent_changed_and_deleted(alice: Client, desk: Desk) -> None:
    empty = alice.get(f"{ROOT}/schedules").content.decode()
    assert "No schedules yet" in empty
    assert NEW in empty
    made = alice.post(NEW, FORM, follow=True)
    assert made.redirect_chain[-1][0] == ONE
    page = made.content.decode()
    assert "on weekdays at 09:30, Europe/Berlin" in page
    assert "the &lt;b&gt;report&lt;/b&gt;" in page
    assert len(re.findall(r"<td>\d{4}-\d\d-\d\d 09:30 \+0[12]00</td>", page)) == 10
    listed = alice.get(f"{ROOT}/schedules").content.decode()
    assert "30 9 * * mon-fri" in listed
    assert "never" in listed

    assert "is paused" in alice.post(f"{ONE}/switch", follow=True).content.decode()
    assert 'badge">paused' in alice.get(ONE).content.decode()
    assert "No runs while it is paused" in alice.get(ONE).content.decode()
    alice.post(f"{ONE}/switch", {"is_enabled": "1"})
    assert Schedule.objects.get().next_ms is not None

    sent = alice.post(f"{ONE}/send", follow=True).content.decode()
    [record] = desk.stored()
    assert f"Stored in queue 0 as {record.message_id}" in sent
    assert (record.body, record.keys) == (b'{"n": 1}', ["a", "b"])

    assert 'value="3"' in alice.get(f"{ONE}/edit").content.decode()
    form = changed(cron="@daily", revision="3")
    assert alice.post(f"{ONE}/edit", form).status_code == 302
    assert "every day at 00:00" in alice.get(ONE).content.decode()

    assert alice.post(f"{ONE}/delete", {"confirm": "night"}).status_code == 422
    assert alice.post(f"{ONE}/delete", {"confirm": "nightly"}).status_code == 302
    assert not Schedule.objects.exists()
    actions = AuditEntry.objects.filter(action__startswith="schedule.").order_by("id")
    assert [row.action.partition(".")[2] for row in actions] == [
        "put", "pause", "resume", "send", "put", "delete",
    ]  # fmt: skip
    assert {row.actor for row in actions} == {"user:alice"}


def test_the_next_runs_are_shown_before_anything_is_saved(alice: Client) -> None:
    part = alice.get(f"{ROOT}/schedule-runs?cron=*/15+*+*+*+*&time_zone=Asia/Shanghai")
    text = part.content.decode()
    assert "every 15 minutes" in text
    assert text.count("+0800</td>") == 10
    assert "<html" not in text
    wrong = alice.get(f"{ROOT}/schedule-runs?cron=61+*+*+*+*&time_zone=UTC").content.decode()
    assert "is invalid in the minute (0 to 59)" in wrong
    nowhere = alice.get(f"{ROOT}/schedule-runs?cron=@daily&time_zone=Mars").content.decode()
    assert "must be an IANA time zone" in nowhere
    # Without a script: a button, and what was written stays
    looked = alice.post(NEW, {**FORM, "name": "", "look": "1", "cron": "0 7 * * *"})
    page = looked.content.decode()
    assert looked.status_code == 200
    assert "every day at 07:00" in page
    assert "source=cron" in page
    assert 'role="alert"' not in page
    assert not Schedule.objects.exists()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"cron": "0 0 31 2 *"}, "never fires"),
        ({"time_zone": "Berlin"}, "must be an IANA time zone"),
        ({"topic": "nowhere"}, "nowhere does not exist"),
        ({"body": "{"}, "This is not valid JSON"),
        ({"body": "", "is_json": ""}, "This field is required"),
        ({"tag": "a|b"}, "must not contain |"),
        ({"queue": "7"}, "has queues 0 to 0"),
        ({"properties": "x"}, "is not in the form name=value"),
        ({"name": "a.b"}, "a-z A-Z 0-9 _ -"),
    ],
)
def test_what_is_refused_is_reported_at_its_field(
    alice: Client, change: dict[str, str], told: str
) -> None:
    form = {name: value for name, value in {**FORM, **change}.items() if value or name != "is_json"}
    answer = alice.post(NEW, form)
    assert answer.status_code == 422
    page = answer.content.decode()
    assert told in page
    assert "source=cron" in page or "properties" in change, "what was written is still there"
    assert not Schedule.objects.exists()


def test_a_name_that_is_taken_and_a_lost_update(alice: Client) -> None:
    alice.post(NEW, FORM)
    assert "A schedule with this name already exists" in alice.post(NEW, FORM).content.decode()
    alice.post(f"{ONE}/edit", changed(cron="@daily", revision="1"))
    lost = alice.post(f"{ONE}/edit", changed(cron="@weekly", revision="1"))
    assert lost.status_code == 422
    assert "Someone else has changed this schedule" in lost.content.decode()
    assert Schedule.objects.get().cron == "@daily"


def test_a_body_that_is_no_text_stays_unless_another_is_written(alice: Client, desk: Desk) -> None:
    desk.make(body=b"\xff\x00")
    assert "Leave this empty to keep it" in alice.get(f"{ONE}/edit").content.decode()
    form = changed(cron="@daily", body="", is_json="", revision="1")
    assert alice.post(f"{ONE}/edit", form).status_code == 302
    kept = Schedule.objects.get()
    assert (bytes(kept.body), kept.cron, kept.tag) == (b"\xff\x00", "@daily", "report")
    del form["is_json"]
    alice.post(f"{ONE}/edit", form | {"body": "text", "revision": "2"})
    assert bytes(Schedule.objects.get().body) == b"text"


def test_one_that_fails_stands_first_and_says_why(alice: Client, desk: Desk) -> None:
    desk.make("a-good-one")
    desk.make("the-bad-one", topic="gone")
    page = alice.get(f"{ROOT}/schedules").content.decode()
    assert "1 failing" in page
    assert page.index("the-bad-one") < page.index("a-good-one")
    one = alice.get(f"{ROOT}/schedules/the-bad-one").content.decode()
    assert f"{ROOT}/topics/gone" not in page + one, "that leads nowhere"
    assert "The next run will not be sent: TOPIC_NOT_FOUND: gone does not exist" in one
    assert "gone does not exist" in alice.post(
        f"{ROOT}/schedules/the-bad-one/send", follow=True
    ).content.decode()  # fmt: skip


def test_masking_holds_for_the_message_of_a_schedule(
    people: People, alice: Client, desk: Desk
) -> None:
    MaskRule.objects.create(
        namespace=people.acme, name="cards", topics="ti*", part="field", path="/card",
        clear_for="owner",
    )  # fmt: skip
    desk.make(body=b'{"card": "4111-1111"}', is_json=True)
    assert "4111-1111" not in (page := alice.get(ONE).content.decode())
    assert "hidden from your role by masking" in page
    form = alice.get(f"{ONE}/edit").content.decode()
    assert "4111-1111" not in form
    assert "so the message is left unchanged" in form
    written = changed(cron="@daily", revision="1", topic="elsewhere", body="other")
    assert alice.post(f"{ONE}/edit", written).status_code == 302
    kept = Schedule.objects.get()
    assert (bytes(kept.body), kept.topic) == (b'{"card": "4111-1111"}', "ticks")
    assert kept.cron == "@daily"
    Member.objects.filter(user=people.alice).update(role=Role.OWNER.value)
    assert "4111-1111" in alice.get(ONE).content.decode()
    assert "4111-1111" in alice.get(f"{ONE}/edit").content.decode()
    seen = AuditEntry.objects.filter(action="messages.unmasked")
    assert {entry.target for entry in seen} == {"topics/ticks"}


def test_a_viewer_sees_schedules_and_why_not_to_change_them_and_no_message(
    people: People, desk: Desk, client: Client
) -> None:
    client.force_login(people.bob)
    assert NEW not in client.get(f"{ROOT}/schedules").content.decode()
    desk.make(body=b"secret", tag="quarterly")
    assert "nightly" in client.get(f"{ROOT}/schedules").content.decode()
    page = client.get(ONE).content.decode()
    assert "Next runs" in page
    for hidden in ("secret", "quarterly", "/edit", "/delete", "/send", "/switch"):
        assert hidden not in page
    assert {"Send now", "Pause", "Edit", "Delete"} <= set(why_not(page))
    assert client.get(NEW).status_code == 403
    assert client.get(f"{ROOT}/schedule-runs?cron=@daily").status_code == 403
    for verb in ("edit", "switch", "send", "delete"):
        assert client.post(f"{ONE}/{verb}", FORM).status_code == 403


def test_nobody_elses_schedule_is_there(people: People, desk: Desk, client: Client) -> None:
    desk.make()
    client.force_login(people.charlie)
    assert client.get(ONE).status_code == 404
    for verb in ("edit", "switch", "send", "delete"):
        assert client.post(f"{ONE}/{verb}", FORM).status_code == 404
        other = f"/console/rival/schedules/nightly/{verb}"
        assert client.post(other, FORM).status_code == 404
    assert Topic.objects.count() == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("*/7 * * * *", ""),  # the last of an hour is shorter
        ("5 * * * *", "every hour at :05"),
        ("@hourly", "every hour at :00"),
        ("5 */6 * * *", "every 6 hours at :05"),
        ("0 9 * * *", "every day at 09:00"),
        ("30 17 * * 1-5", "on weekdays at 17:30"),
        ("0 8 * * sat,sun", "on weekends at 08:00"),
        ("0 8 * * 0", "every Sunday at 08:00"),
        ("0 8 * * MON", "every Monday at 08:00"),
        ("0 8 15 * *", "on day 15 of the month at 08:00"),
        ("0 8 L * *", "on the last day of the month at 08:00"),
        ("0 8 1 1 *", ""),
        ("0,30 8 * * *", ""),
        ("0 8 1 * mon", ""),
    ],
)
def test_simple_expressions_are_described_in_words(text: str, words: str) -> None:
    assert describe_cron(text) == words


def test_words_are_in_the_language_of_the_page() -> None:
    with translation.override("zh-hans"):
        assert describe_cron("0 8 * * 1") == "每星期一 08:00"
