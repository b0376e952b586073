"""The page beside other queues: what the committed evidence makes, and what it does not hide."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from bench.machine import Machine
from bench.peers import sqs
from bench.peers.evidence import EVIDENCE, Evidence, Section, read_evidence, write_evidence
from bench.peers.goals import find_goals
from bench.peers.peer import PeerFacts, WayFacts
from bench.peers.render import DOCS, PAGE, page, pictures, table
from bench.peers.turns import Figure, Timing
from bench.peers.usage import Usage
from bench.peers.workloads import WORKLOADS

LATENCY = {"p50_ms": 1.0, "p99_ms": 9.0, "p99_9_ms": 20.0, "max_ms": 50.0, "sent_late_p50_ms": 0.5}


def _figure(label: str, median: float, *, cores: float = 0.5, **extra: float) -> Figure:
    is_ours = label.startswith("mqservice")
    way = WayFacts(
        label=label,
        peer=label.split()[0],
        durability="after a sync",
        is_synced="async" not in label,
        is_ours=is_ours,
    )
    usage = Usage(seconds=1, server_cores=cores, generator_cores=0.95, other_cores=0.4)
    return Figure(
        workload="w", way=way, median=median, runs=[median], usage=usage, extra=dict(extra)
    )


def _section(key: str, *figures: Figure, unit: str = "msg/s", **failed: str) -> Section:
    return Section(
        key=key,
        title=f"Title of {key}",
        unit=unit,
        how="somehow",
        is_less_better=unit != "msg/s",
        figures=list(figures),
        failed=failed,
    )


def _evidence(*sections: Section) -> Evidence:
    return Evidence(
        taken_at="2026-11-22T14:00:00+00:00",
        commit="abc",
        machine=Machine(
            cpu="a CPU", cores=2, memory_gib=8, kernel="6", python="3.11", disk="ext4 on x"
        ),
        timing=Timing(seconds=1, warm_up_seconds=1, idle_seconds=1, repeats=3),
        seconds=480,
        peers=[PeerFacts(name="mqservice", version="abc", setup="as it comes")],
        skipped={"nats": "nats-server is not installed; on Debian: apt-get install nats-server"},
        sections=list(sections),
    )


def test_page_and_pictures_are_what_the_committed_evidence_makes() -> None:
    evidence = read_evidence(EVIDENCE)

    assert PAGE.read_text() == page(PAGE.read_text(), evidence), "python -m bench.peers.render"
    for name, content in pictures(evidence).items():
        assert (DOCS / name).read_text() == content, "python -m bench.peers.render"


def test_page_has_the_sqs_figures_of_the_committed_evidence() -> None:
    evidence = read_evidence(sqs.EVIDENCE)

    assert PAGE.read_text() == sqs.render(evidence), "python -m bench.peers.sqs --repeats 0"
    assert len(evidence.sections) == len(sqs.OPERATIONS) * len(sqs.CONNECTIONS)
    assert all(len(section.figures) == 4 for section in evidence.sections)


def test_committed_evidence_is_of_a_whole_run() -> None:
    evidence = read_evidence(EVIDENCE)
    wanted = {each.key for each in WORKLOADS if not each.is_large}

    assert wanted <= {section.key for section in evidence.sections}
    assert {peer.name for peer in evidence.peers} >= {"mqservice", "RabbitMQ", "NATS JetStream"}


def test_evidence_is_formatted_the_same_way_each_time(tmp_path: Path) -> None:
    write_evidence(tmp_path / "again.json", read_evidence(EVIDENCE))

    assert (tmp_path / "again.json").read_bytes() == EVIDENCE.read_bytes()


def test_evidence_of_another_version_is_refused(tmp_path: Path) -> None:
    write_evidence(tmp_path / "peers.json", msgspec.structs.replace(_evidence(), format_version=0))

    with pytest.raises(ValueError, match="version 0"):
        read_evidence(tmp_path / "peers.json")


def test_a_peer_that_is_ahead_is_named_with_how_far() -> None:
    section = _section(
        "push-one",
        _figure("mqservice WebSocket, sync", 100),
        _figure("mqservice WebSocket, async", 900),
        _figure("NATS, WebSocket, push", 250),
        _figure("RabbitMQ Web STOMP", 20),
    )

    made = table(_evidence(section))

    assert "* Title of push-one: NATS, WebSocket, push 2.50×\n" in made
    assert "| NATS, WebSocket, push | 250 | 250 | 2.50× |" in made


def test_a_peer_that_does_not_sync_is_also_held_against_ours_that_does_not() -> None:
    unsynced = _figure("NATS async", 450)
    section = _section(
        "socket-one",
        _figure("mqservice WebSocket, sync", 100),
        _figure("mqservice WebSocket, async", 900),
        unsynced,
    )

    made = table(_evidence(section))

    assert "NATS async 4.50× (not synced; compared with ours, async, 0.50×)\n" in made


def test_a_busy_machine_is_reported_before_anything_else() -> None:
    quiet = _figure("mqservice, sync", 1)
    usage = msgspec.structs.replace(quiet.usage, other_cores=0.02)
    quiet = msgspec.structs.replace(quiet, usage=usage)

    assert "other work during this run** (0.4 of 2" in table(
        _evidence(_section("push-one", _figure("mqservice, sync", 1)))
    )
    assert "other work" not in table(_evidence(_section("push-one", quiet)))


def test_evidence_that_is_written_is_read_as_it_was(tmp_path: Path) -> None:
    evidence = _evidence(_section("push-one", _figure("mqservice, sync", 1, messages=7)))

    write_evidence(tmp_path / "a.json", evidence)
    write_evidence(tmp_path / "b.json", read_evidence(tmp_path / "a.json"))

    assert read_evidence(tmp_path / "a.json") == evidence
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_less_is_ahead_where_less_is_better() -> None:
    section = _section(
        "latency-1000",
        _figure("mqservice WebSocket, sync", 9, **LATENCY),
        _figure("NATS, WebSocket, push", 3, **LATENCY),
        _figure("RabbitMQ Web STOMP", 90, **LATENCY),
        unit="ms, p99",
    )

    made = table(_evidence(section))

    assert "* Title of latency-1000: NATS, WebSocket, push 0.33×\n" in made
    assert "| 1 | 9 | 20 | 50 |" in made


def test_what_is_missing_has_its_reason_on_the_page() -> None:
    made = table(_evidence(_section("push-one", ActiveMQ="3 of 9 came,\nthen none")))

    assert "Skipped: **nats**: nats-server is not installed" in made
    assert "No result for **ActiveMQ**: 3 of 9 came, then none." in made
    assert "Nowhere in this run." in made


def test_a_generator_at_its_end_and_a_busy_machine_are_reported() -> None:
    made = table(_evidence(_section("push-one", _figure("mqservice, sync", 100))))

    assert "generator full, others 0.40 cores" in made


def test_wanted_is_our_durable_best_to_their_best() -> None:
    section = _section(
        "rest-one",
        _figure("mqservice REST, sync", 1_000, cores=0.5),
        _figure("mqservice REST, async", 5_000),
        _figure("RabbitMQ HTTP API, classic", 50, cores=1.0),
        _figure("RabbitMQ HTTP API, quorum", 125, cores=1.0),
        _figure("bare ASGI handler", 3_000),
    )

    rabbit, bare = find_goals(_evidence(section))

    assert (rabbit.ratio, rabbit.is_met) == (8.0, False)
    assert rabbit.cpu_ratio == pytest.approx(16.0)
    assert bare.ratio == pytest.approx(1 / 3)
    assert not bare.is_met


def test_pictures_are_xml_and_have_every_way() -> None:
    sections = (
        _section("push-one", _figure("mqservice, sync", 0), _figure("a <b> & c", 7)),
        _section(
            "latency-1000",
            _figure("mqservice, sync", 9, **{**LATENCY, "max_ms": 0.05, "p50_ms": 0.01}),
            unit="ms, p99",
        ),
    )

    made = pictures(_evidence(*sections))

    assert set(made) == {"peers-push.svg", "peers-latency.svg"}
    texts = {
        element.text
        for content in made.values()
        for element in ElementTree.fromstring(content).iter()
    }
    assert {"mqservice, sync", "a <b> & c"} <= texts


def test_every_workload_has_a_key_of_its_own() -> None:
    assert len({workload.key for workload in WORKLOADS}) == len(WORKLOADS)
