"""The facts of a running service, for scripts and for the panel; written to ``quickstart.json``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from mqservice.lib.names import MAIN_SHARD
from mqservice.supervisor.config import SupervisorConfig
from mqservice.supervisor.data_dir import write_private
from mqservice.supervisor.first_run import DemoFacts


class Quickstart(msgspec.Struct, frozen=True, kw_only=True):
    """``pids`` maps process name to pid; it is empty once the service has stopped.

    ``engine_metrics_url`` is empty when the user wants no metrics; ``shard_metrics_urls`` are those
    of the engines of other shards than the main one. ``own_url`` is the address on this machine,
    which ``base_url`` may reach only through a proxy.
    """

    base_url: str
    own_url: str = ""
    ws_url: str
    console_url: str
    engine_metrics_url: str = ""
    shard_metrics_urls: dict[str, str] = {}
    namespace: str
    topic: str
    group: str
    api_key: str
    username: str
    password: str
    pids: dict[str, int]


def quickstart_of(
    config: SupervisorConfig, facts: DemoFacts, *, metrics_ports: Mapping[str, int]
) -> Quickstart:
    """The facts of this run, as yet without processes. ``metrics_ports``: by shard; 0 is none."""
    base_url = config.base_url
    urls = {
        shard: f"http://127.0.0.1:{port}/metrics" for shard, port in metrics_ports.items() if port
    }
    return Quickstart(
        base_url=base_url,
        own_url=config.own_url,
        ws_url="ws" + base_url.removeprefix("http") + "/v1/ws",
        console_url=f"{base_url}/",
        engine_metrics_url=urls.pop(MAIN_SHARD, ""),
        shard_metrics_urls=urls,
        pids={},
        **msgspec.structs.asdict(facts),
    )


def write_quickstart(path: Path, quickstart: Quickstart) -> None:
    """Replaces the file in one step; readers see the old facts or the new ones."""
    text = msgspec.json.format(msgspec.json.encode(quickstart), indent=2).decode()
    write_private(path, text + "\n")


def find_quickstart(path: Path) -> Quickstart | None:
    """The facts at ``path``, or None when there are none that can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Quickstart)
    except (OSError, msgspec.DecodeError):
        return None


def curl_line(quickstart: Quickstart) -> str:
    """A command that sends a first message when it is pasted into a shell."""
    url = f"{quickstart.base_url}/v1/ns/{quickstart.namespace}/topics/{quickstart.topic}/messages"
    return (
        f"curl -s {url} -H 'Authorization: Bearer {quickstart.api_key}' "
        "-H 'Content-Type: text/plain' -d 'hello, queue'"
    )
