"""ActiveMQ Classic: STOMP over TCP into KahaDB.

Debian's package has no web server in it, so its REST endpoint ``/api/message`` is not there to be
measured: that is said where the figure would stand.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

from bench.measure import Skipped
from bench.peers.child import answers_on, child
from bench.peers.peer import Peer, PeerFacts, WayFacts
from bench.peers.stomp import StompConnection
from bench.peers.stomp_way import StompWay
from bench.peers.wires import TcpWire
from bench.processes import free_port, scratch_directory

NAME: Final = "ActiveMQ"
HOME: Final = Path("/usr/share/activemq")
JARS: Final = Path("/usr/share/java")
CONFIG: Final = """\
<beans xmlns="http://www.springframework.org/schema/beans"
  xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans
    http://www.springframework.org/schema/beans/spring-beans-2.0.xsd
    http://activemq.apache.org/schema/core
    http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" brokerName="bench" useJmx="false"
      persistent="true" dataDirectory="{data}">
    <persistenceAdapter>
      <kahaDB directory="{data}/kahadb" journalDiskSyncStrategy="always"/>
    </persistenceAdapter>
    <transportConnectors>
      <transportConnector name="stomp" uri="stomp+nio://127.0.0.1:{port}"/>
    </transportConnectors>
  </broker>
</beans>
"""
NO_REST: Final = (
    "this package of ActiveMQ has no web server (activemq-web and Jetty are missing), so there is "
    "no REST to measure; the archive of the project has both"
)
_VERSION: Final = re.compile(r"activemq-broker-(\d+\.\d+\.\d+)\.jar")


def why_no_rest() -> str:
    """Empty where ActiveMQ's REST could be measured, else the reason."""
    return "" if list(JARS.glob("activemq-web*.jar")) else NO_REST


@contextlib.asynccontextmanager
async def activemq_running(base: Path) -> AsyncIterator[Peer]:
    """Raises Skipped when it, or Java, is not installed."""
    java = shutil.which("java")
    starter = HOME / "bin" / "activemq.jar"
    if java is None or not starter.exists():
        raise Skipped("ActiveMQ is not installed; on Debian: apt-get install activemq")
    with scratch_directory("activemq", base) as directory:
        port = free_port()
        config = directory / "activemq.xml"
        config.write_text(CONFIG.format(data=directory / "data", port=port))
        command = [
            java,
            "-Xms512M",
            "-Xmx1G",
            f"-Dactivemq.home={HOME}",
            f"-Dactivemq.base={directory}",
            f"-Dactivemq.conf={directory}",
            f"-Dactivemq.data={directory / 'data'}",
            "-jar",
            str(starter),
            "start",
            f"xbean:file:{config}",
        ]
        with child(command, dict(os.environ), directory) as server:
            await server.wait_for(lambda: answers_on(port))
            yield Peer(
                facts=PeerFacts(
                    name=NAME,
                    version=_version(),
                    setup="one broker with a heap of 1 GiB, KahaDB with journalDiskSyncStrategy "
                    "always; produced over 64 connections with one message each in flight, "
                    "because it works through a connection's messages one by one",
                ),
                sockets=[_ActiveStomp([server.pid], port)],
            )


def _version() -> str:
    found = [_VERSION.fullmatch(path.name) for path in JARS.glob("activemq-broker-*.jar")]
    return next((match.group(1) for match in found if match), "unknown")


class _ActiveStomp(StompWay):
    prefetch_header = "activemq.prefetchSize"
    lanes = 64
    in_flight = 1

    def __init__(self, roots: Sequence[int], port: int) -> None:
        self.facts = WayFacts(
            label="ActiveMQ STOMP over TCP",
            peer=NAME,
            durability="KahaDB, persistent, with a receipt: after a sync of its journal",
            is_synced=True,
        )
        self.roots = roots
        self._port = port

    async def make_topic(self, topic: str) -> None:
        """Queues are made by their first use."""

    async def drop_topic(self, topic: str) -> None:
        """What is empty and unused it removes by itself; the rest goes with its directory."""

    def destination(self, topic: str) -> str:
        return f"/queue/{topic}"

    async def connect(self) -> StompConnection:
        wire = await TcpWire.connect("127.0.0.1", self._port)
        return await StompConnection.over(wire, login="", passcode="")
