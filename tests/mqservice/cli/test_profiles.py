"""``mqservice login`` and ``profile``: several servers, one in use, keys that nobody else reads."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import msgspec
import pytest

from mqservice.cli.errors import UsageError
from mqservice.cli.profiles import Profile, Profiles, load_profiles, save_profiles
from mqservice.cli.target import find_target
from tests.mqservice.cli.commands import mqservice
from tests.mqservice.cli.service_double import KEY, Answer, problem, service_double

TOPICS = Answer(200, {"topics": [], "next": None})


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("MQ_DATA_DIR", "/nonexistent")
    return tmp_path


def two_servers(current: str) -> Profiles:
    return Profiles(
        current=current,
        profiles={
            "prod": Profile(base_url="https://mq.example", api_key="mqk_prod", namespace="shop"),
            "dev": Profile(base_url="http://127.0.0.1:8000", api_key="mqk_dev"),
        },
    )


async def test_login_tries_the_key_and_keeps_it_for_the_user_alone(tmp_path: Path) -> None:
    home = str(tmp_path / "config")
    async with service_double() as double:
        double.answers += [TOPICS, TOPICS]
        address = double.target.base_url
        made = await mqservice(
            *("login", "prod", "--base-url", f"{address}/"),
            stdin=KEY.encode() + b"\nrest", key="", XDG_CONFIG_HOME=home,
        )  # fmt: skip
        file = tmp_path / "config" / "mqservice" / "profiles.json"

        assert (made.code, made.out) == (0, b"")
        assert f"{address} accepted the key" in made.line
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert double.requests[0].headers["authorization"] == f"Bearer {KEY}"

        used = await mqservice("topic", "list", key="", XDG_CONFIG_HOME=home, MQ_BASE_URL="")
        assert used.code == 0, used.err
        assert double.requests[1].headers["authorization"] == f"Bearer {KEY}"


async def test_login_with_a_key_that_the_server_refuses_saves_nothing(tmp_path: Path) -> None:
    async with service_double() as double:
        ended = await mqservice(
            *("login", "--base-url", double.target.base_url),
            stdin=b"mqk_wrong\n", key="", XDG_CONFIG_HOME=str(tmp_path),
        )  # fmt: skip
        assert ended.code == 1
        assert "UNAUTHENTICATED" in ended.line
        double.answers.append(problem(404, "NAMESPACE_NOT_FOUND"))
        ended = await mqservice(
            *("login", "--base-url", double.target.base_url, "-n", "nope"),
            stdin=KEY.encode(), key="", XDG_CONFIG_HOME=str(tmp_path),
        )  # fmt: skip
        assert ended.code == 1
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("answer", [problem(403, "FORBIDDEN"), problem(404, "NAMESPACE_NOT_FOUND")])
async def test_login_takes_a_key_that_may_not_list_topics_or_has_no_namespace(
    tmp_path: Path, answer: Answer
) -> None:
    async with service_double() as double:
        double.answers.append(answer)
        ended = await mqservice(
            *("login", "--base-url", double.target.base_url),
            stdin=KEY.encode(), key="", XDG_CONFIG_HOME=str(tmp_path),
        )  # fmt: skip
        assert ended.code == 0, ended.err


@pytest.mark.parametrize(
    ("arguments", "stdin", "complaint"),
    [
        (("login", "../up"), b"k", "not a valid profile name"),
        (("login", "--base-url", "mq.example"), b"k", "must be an address"),
        (("login", "--base-url", "http://mq.example:port"), b"k", "must be an address"),
        (("login",), b"\n", "no API key was given"),
        (("login",), b"a b\n", "characters that are never part of a key"),
        (("profile", "use", "nope"), b"", "no profile 'nope'"),
        (("profile", "remove", "nope"), b"", "no profile 'nope'"),
        (("topic", "list", "--profile", "nope"), b"", "mqservice login nope"),
    ],
)
async def test_what_makes_no_sense_is_refused_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], stdin: bytes, complaint: str
) -> None:
    ended = await mqservice(*arguments, stdin=stdin, key="", XDG_CONFIG_HOME=str(tmp_path))
    assert ended.code == 2
    assert complaint in ended.line


async def test_profiles_are_listed_without_keys_used_and_removed(tmp_path: Path) -> None:
    home = str(tmp_path)
    (tmp_path / "mqservice").mkdir()
    file = tmp_path / "mqservice" / "profiles.json"
    file.write_bytes(msgspec.json.encode(two_servers("prod")))

    shown = await mqservice("profile", "list", key="", XDG_CONFIG_HOME=home)
    assert b"mqk_" not in shown.out
    assert [line.split() for line in shown.out.decode().splitlines()] == [
        ["NAME", "ADDRESS", "NAMESPACE"],
        ["dev", "http://127.0.0.1:8000", "-"],
        ["*", "prod", "https://mq.example", "shop"],
    ]
    assert (await mqservice("profile", "use", "dev", key="", XDG_CONFIG_HOME=home)).code == 0
    listed = await mqservice("profile", "list", "-o", "json", key="", XDG_CONFIG_HOME=home)
    assert [row["is_current"] for row in msgspec.json.decode(listed.out)] == [True, False]
    assert (await mqservice("profile", "remove", "dev", key="", XDG_CONFIG_HOME=home)).code == 0
    left = msgspec.json.decode(file.read_bytes(), type=Profiles)
    assert (left.current, list(left.profiles)) == ("", ["prod"])


async def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    async with service_double() as double:
        double.answers.append(TOPICS)
        ended = await mqservice(
            *("login", "--base-url", double.target.base_url),
            stdin=KEY.encode(), key="", XDG_CONFIG_HOME=str(tmp_path / "file"),
        )  # fmt: skip
    assert ended.code == 2
    assert "cannot write" in ended.line


def test_a_full_disk_leaves_what_was_saved_before(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_profiles(two_servers("dev"))

    def refuse(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(UsageError, match=r"cannot write .*profiles\.json: no space left"):
        save_profiles(two_servers("prod"))
    assert load_profiles() == two_servers("dev")
    assert [each.name for each in (config / "mqservice").iterdir()] == ["profiles.json"]


def test_a_damaged_file_is_named(config: Path) -> None:
    (config / "mqservice").mkdir()
    (config / "mqservice" / "profiles.json").write_bytes(b"{")
    with pytest.raises(UsageError, match=r"cannot read .*profiles\.json"):
        load_profiles()


def test_saving_again_replaces_a_file_that_others_could_read(config: Path) -> None:
    save_profiles(two_servers("dev"))
    file = config / "mqservice" / "profiles.json"
    os.chmod(file, 0o644)
    save_profiles(two_servers("prod"))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert load_profiles() == two_servers("prod")
    assert [each.name for each in file.parent.iterdir()] == ["profiles.json"]


def test_the_profile_in_use_gives_address_key_and_namespace(config: Path) -> None:
    save_profiles(two_servers("prod"))
    target = find_target()
    assert (target.base_url, target.key, target.namespace) == (
        "https://mq.example", "mqk_prod", "shop",
    )  # fmt: skip
    assert find_target(None, None, "other").namespace == "other"


def test_a_named_profile_wins_over_the_one_in_use(config: Path) -> None:
    save_profiles(two_servers("prod"))
    assert find_target(profile="dev").key == "mqk_dev"
    assert find_target().key == "mqk_prod"


@pytest.mark.parametrize("chosen", [None, "prod"])
def test_a_profiles_key_is_not_sent_to_another_address(config: Path, chosen: str | None) -> None:
    save_profiles(two_servers("prod"))
    with pytest.raises(UsageError, match="no API key for"):
        find_target("https://evil.example", profile=chosen)
    assert find_target("https://evil.example", "mqk_mine", profile=chosen).key == "mqk_mine"


def test_a_profile_in_use_wins_over_the_service_started_here(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = b'{"base_url":"http://127.0.0.1:8123","api_key":"mqk_local"}'
    (config / "quickstart.json").write_bytes(facts)
    monkeypatch.setenv("MQ_DATA_DIR", str(config))
    save_profiles(two_servers("prod"))
    assert find_target().key == "mqk_prod"
    assert find_target("http://127.0.0.1:8123", None, None).key == "mqk_local"
    save_profiles(two_servers(""))
    assert find_target().key == "mqk_local"
