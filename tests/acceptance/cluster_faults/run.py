"""Faults of a cluster one after the other, under load; recorded, and judged by what clients saw.

    fault ──▶ nodes, links ─ until all is as before ──▶ … ──▶ drained ──▶ read back ──▶ judge
                     answers, deliveries ──▶ Recording

Whoever owns the shard ``main`` is meant, which has the load's topic. Between the faults each shard
has an owner and two replicas that could take over.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import psycopg

from mqservice.supervisor.quickstart import Quickstart
from tests.acceptance.cluster import CLIENTS, NODES, WEB, Cluster
from tests.acceptance.cluster_faults.clients import (
    Canceller,
    DelayingProducer,
    HostedRestConsumer,
    HostedSocketConsumer,
    NotingProducer,
    TopicChanger,
)
from tests.acceptance.cluster_faults.recording import Fired, Recording, recorded
from tests.acceptance.cluster_faults.site import OBJECTS, POSTGRES, NetworkSite
from tests.acceptance.history.asking import is_drained, make_topic_and_group, read_topic
from tests.acceptance.history.events import (
    Accepted,
    Delivered,
    History,
    Killed,
    OwnerLost,
    killed_within,
)
from tests.acceptance.history.load import Load, LoadRun
from tests.acceptance.nemesis.processes import state_of
from tests.acceptance.partitions.network import Direction, Link

SHARD: Final = "main"
NAME: Final = "faults"  # of the topic and the group
PRODUCERS: Final = 8
QUIET_S: Final = 8.0  # before the first fault and after each
ALONE_S: Final = 6.0  # without the object store, before the machine is lost
HOLD_S: Final = 15.0  # of a cut that nobody takes over for, and of a pause at least
AFTER_S: Final = 5.0  # that a node stays away once another one owns its shard
READY_S_MAX: Final = 120
_MOVE: Final = "UPDATE shards_shard SET move_to = %s WHERE name = %s"
# Each shard has an owner that beats, and two replicas that are where its log ends.
_WHOLE: Final = """
SELECT count(*) FROM shards_shard WHERE owner <> '' AND heartbeat_at > now() - interval '3 s' AND
    (SELECT count(*) FROM shards_replica WHERE shard_id = shards_shard.name
        AND node <> shards_shard.owner AND behind_ms BETWEEN 0 AND 3000
        AND shards_replica.heartbeat_at > now() - interval '3 s') = 2
"""
_UNCHECKED: Final = "SELECT count(*) FROM shards_shard WHERE checked_epoch < served_epoch"


class ClusterFault(NamedTuple):
    """``fire`` returns when all is as before, with what became of the shard in words. ``label``: in
    a drawing.
    """

    name: str
    label: str
    fire: Callable[[Faults], str]


class Faults:
    """What faults work on, and what they wait for."""

    def __init__(self, cluster: Cluster, site: NetworkSite, load: Load) -> None:
        self.cluster = cluster
        self.network = site.network
        self.load = load
        self._site = site

    @property
    def history(self) -> History:
        return self.load.run.history

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:  # Any: SQL's values
        def ask() -> list[tuple[Any, ...]]:
            url = self._site.environment["DATABASE_URL"]
            with psycopg.connect(url, autocommit=True) as connection:
                cursor = connection.execute(statement, values)
                return cursor.fetchall() if cursor.description else []

        return self._site.run(WEB, ask)

    def owner(self) -> str:
        """Who serves the shard; empty while nobody does."""
        return self.cluster.owners().get(SHARD, "")

    def links_of(self, node: str) -> list[Link]:
        return self._site.links_of(node)

    def await_whole(self) -> None:
        self.load.must(
            "each shard has an owner and two replicas", "not-healed",
            lambda: self.query(_WHOLE) == [(len(NODES),)], s_max=READY_S_MAX,
        )  # fmt: skip

    def await_flow(self, what: str) -> None:
        since = time.monotonic()
        self.load.must(
            f"{what}, and messages flow", "not-healed", lambda: self.load.flows_since(since)
        )

    def await_next_owner(self, lost: str, begun: float) -> str:
        """Who took the shard over, in words; what its clients saw meanwhile is explained."""
        self.load.must(
            f"another node owns what {lost} did", "not-taken-over",
            lambda: self.owner() not in ("", lost),
        )  # fmt: skip
        next_owner, took_s = self.owner(), time.monotonic() - begun
        self.await_flow(f"{next_owner} took over")
        self.history.add(OwnerLost(SHARD, time.monotonic(), at=begun))
        return f"{next_owner} served after {took_s:.1f} s"

    def ended_since(self, node: str, begun: float) -> None:
        """What it had handed out may have come again, whenever it gave its shards up."""
        for kill in killed_within(node, begun, time.monotonic()):
            self.history.add(kill)


def hold(seconds: float) -> None:
    """A fault has to last: nothing tells when it has lasted."""
    threading.Event().wait(seconds)


def kill(faults: Faults, *, with_disk: bool = False, alone_s: float = 0) -> str:
    """All processes of the owner at once; it is started again once another one owns the shard.
    ``alone_s``: so long before, it cannot reach the object store.
    """
    owner, begun = faults.owner(), time.monotonic()
    link = Link(owner, OBJECTS)
    if alone_s:
        faults.network.cut(link, Direction.BOTH)
        hold(alone_s)
    faults.cluster.kill(owner, with_disk=with_disk)
    text = faults.await_next_owner(owner, begun)
    hold(AFTER_S)
    if alone_s:
        heal(faults, link)
    faults.cluster.start(owner)
    faults.await_whole()
    return f"{text}; {owner} was a replica again {time.monotonic() - begun:.0f} s after the fault"


def pause(faults: Faults) -> str:
    """The owner stands still until long after it was replaced."""
    owner, begun = faults.owner(), time.monotonic()
    pids = faults.cluster.send(owner, signal.SIGSTOP)
    faults.load.must(
        f"{owner} stands still", "fault-never-fired",
        lambda: all(state_of(pid) in "TZ" for pid in pids),
    )  # fmt: skip
    text = faults.await_next_owner(owner, begun)
    hold(max(AFTER_S, HOLD_S - (time.monotonic() - begun)))
    faults.cluster.send(owner, signal.SIGCONT)
    faults.history.add(Killed(owner))  # what it had handed out before it stood still may come now
    resumed = time.monotonic()
    faults.await_whole()
    return f"{text}; resumed after {resumed - begun:.0f} s, {owner} became a replica"


def isolate(faults: Faults) -> str:
    """The owner reaches nobody and nobody reaches it."""
    owner, begun = faults.owner(), time.monotonic()
    links = faults.links_of(owner)
    for link in links:
        faults.network.cut(link, Direction.BOTH)
    text = faults.await_next_owner(owner, begun)
    hold(max(AFTER_S, HOLD_S - (time.monotonic() - begun)))
    heal(faults, *links)
    faults.history.add(Killed(owner))
    healed = time.monotonic()
    faults.await_whole()
    return f"{text}; connected again after {healed - begun:.0f} s, {owner} became a replica"


def cut_off_from_log(faults: Faults) -> str:
    """The owner cannot reach the object store, and heals by itself."""
    owner = faults.owner()
    link = Link(owner, OBJECTS)
    faults.network.cut(link, Direction.BOTH)
    hold(HOLD_S)
    heal(faults, link)
    faults.await_flow("the object store is back")
    faults.await_whole()
    return f"{_kept(faults, owner)}; produces were rejected until the link was back"


def cut_off_from_database(faults: Faults) -> str:
    """The owner cannot reach PostgreSQL, and serves on."""
    owner, begun = faults.owner(), time.monotonic()
    link = Link(owner, POSTGRES)
    faults.network.cut(link, Direction.BOTH)
    hold(HOLD_S)
    faults.load.must("messages flow", "stopped", lambda: faults.load.flows_since(begun + HOLD_S))
    heal(faults, link)
    faults.await_whole()
    return f"{_kept(faults, owner)} and served on"


def move(faults: Faults) -> str:
    """As ``mqservice shard move`` writes it; to start that program would be seen in latencies."""
    owner = faults.owner()
    target = next(node for node in NODES if node != owner)
    begun = time.monotonic()
    faults.query(_MOVE, target, SHARD)
    faults.load.must("it has moved", "fault-never-fired", lambda: faults.owner() == target)
    took_s = time.monotonic() - begun
    faults.await_flow(f"{target} owns it")
    faults.ended_since(owner, begun)
    faults.await_whole()
    return f"{target} served after {took_s:.1f} s"


def restart_all(faults: Faults) -> str:
    """Each node is stopped in order and started again, when the one before is as it was."""
    for node in NODES:
        begun = time.monotonic()
        code = faults.cluster.stop(node)
        if code != 0:
            faults.load.run.anomalies.append(("stopped-badly", f"{node}: exit code {code}"))
        faults.cluster.start(node)
        faults.await_flow(f"{node} starts again")
        faults.ended_since(node, begun)
        faults.await_whole()
    return f"{faults.owner()} serves at its end"


def heal(faults: Faults, *links: Link) -> None:
    """A cut that dropped no packet has not fired."""
    count = sum(faults.network.dropped_count(link, Direction.BOTH) for link in links)
    if not count:
        faults.load.run.anomalies.append(("fault-never-fired", str(links)))
    faults.load.run.counts["packets_dropped"] += count
    for link in links:
        faults.network.heal(link, Direction.BOTH)


def _kept(faults: Faults, owner: str) -> str:
    found = faults.owner()
    if found != owner:
        faults.load.run.anomalies.append(("taken-over", f"from {owner} by {found}"))
    return f"{owner} kept the shard"


ALL: Final = (
    ClusterFault("kill -9: the owner's machine", "killed", kill),
    ClusterFault("pause: the owner's machine", "paused", pause),
    ClusterFault("cut: the owner and the object store", "no bucket", cut_off_from_log),
    ClusterFault("cut: the owner and PostgreSQL", "no database", cut_off_from_database),
    ClusterFault("cut: the owner and everybody", "isolated", isolate),
    ClusterFault(
        "kill -9, disk lost: the owner's machine",
        "disk lost",
        lambda each: kill(each, with_disk=True),
    ),
    ClusterFault(
        "cut: the owner and the object store, then kill -9",
        "alone, killed",
        lambda each: kill(each, alone_s=ALONE_S),
    ),
    ClusterFault("planned move of the shard", "moved", move),
    ClusterFault("rolling restart of all nodes", "restarts", restart_all),
)


def run_cluster_faults(
    cluster: Cluster, site: NetworkSite, faults: Sequence[ClusterFault], *, seed: int
) -> tuple[LoadRun, Recording]:
    """Each in turn."""
    run = LoadRun(History())
    facts = msgspec.structs.replace(cluster.facts, topic=NAME, group=NAME)
    host = site.network.hosts[CLIENTS]
    host.run(lambda: make_topic_and_group(facts, NAME, {}))
    producers = [NotingProducer(f"p{n}", facts, run.history, seed) for n in range(PRODUCERS)]
    delaying = DelayingProducer("later", facts, run.history, seed)
    consumers = [
        HostedRestConsumer("rest", facts, run.history, seed),
        HostedSocketConsumer("socket-1", facts, run.history, seed),
        HostedSocketConsumer("socket-2", facts, run.history, seed),
    ]
    changer = TopicChanger("changed", facts, run.history, seed)
    canceller = Canceller("cancelled", facts, run.history, seed)
    others = [changer, canceller]
    for client in (*producers, delaying, *consumers, *others):
        client.host = host
    load = Load(run, producers=[*producers, delaying], consumers=consumers, others=others)
    load.start()
    at_work = Faults(cluster, site, load)
    at_work.await_whole()
    begun, fired = time.monotonic(), []
    hold(QUIET_S)
    for fault in faults:
        fault_begun = time.monotonic()
        text = fault.fire(at_work)
        fired.append(
            Fired(
                name=fault.name, label=fault.label, begun=fault_begun, over=time.monotonic(),
                text=text,
            )
        )  # fmt: skip
        run.fired[fault.name] += 1
        hold(QUIET_S)
    ended = time.monotonic()
    load.finish(
        lambda: _are_delivered(run.history) and host.run(lambda: is_drained(facts, NAME)),
        is_ordered=False,
    )
    run.anomalies += host.run(lambda: _missing(facts, run.history))
    load.must(
        "the engines were compared with the database", "changes-not-restored",
        lambda: at_work.query(_UNCHECKED) == [(0,)],
    )  # fmt: skip
    run.anomalies += host.run(changer.lost)
    run.counts["topics_created"] = len(changer.there) + len(changer.deleted)
    run.counts["topics_deleted"] = len(changer.deleted)
    hold(Canceller.delay_s + AFTER_S)  # until what it has scheduled last has come
    run.anomalies += host.run(canceller.wrong)
    run.counts["scheduled_messages_cancelled"] = len(canceller.cancelled)
    recording = recorded(
        [answer for producer in producers for answer in producer.answers],
        [each.at for each in run.history.of(Delivered)],
        fired, begun=begun, ended=ended, object_store=site.object_store,
    )  # fmt: skip
    return run, recording


def _are_delivered(history: History) -> bool:
    """Whether all that was acknowledged has come. What is delayed is no lag before it is due."""
    delivered = {each.body for each in history.of(Delivered) if isinstance(each, Delivered)}
    return all(
        each.body in delivered for each in history.of(Accepted) if isinstance(each, Accepted)
    )


def _missing(facts: Quickstart, history: History) -> list[tuple[str, str]]:
    """What was acknowledged or handed out, and is not at its place in the topic afterwards: it was
    acknowledged, or handed out, before the replicated log had it.
    """
    there = read_topic(facts, facts.topic)
    acknowledged = {
        (each.queue, each.offset): each.body
        for each in history.of(Accepted)
        if isinstance(each, Accepted) and each.offset >= 0
    }
    handed_out = {
        (each.queue, each.offset): each.body
        for each in history.of(Delivered)
        if isinstance(each, Delivered) and each.attempt == 1
    }
    return [
        (name, f"{body} at {place}, there is {there.get(place)}")
        for name, found in (
            ("acknowledged-before-replicated", acknowledged),
            ("handed-out-before-replicated", handed_out),
        )
        for place, body in found.items()
        if there.get(place) != body
    ]
