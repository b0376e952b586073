"""ElasticMQ, an SQS server, with the storage of messages on, in its database H2.

As it comes, the database writes what was confirmed within half a second. With WRITE_DELAY=0 each
message is in its file before it is confirmed. It has no setting to sync.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from bench.measure import Skipped
from bench.peers.child import answers_on, child
from bench.peers.peer import PeerFacts, WayFacts
from bench.processes import free_port, scratch_directory

NAME: Final = "ElasticMQ"
POM: Final = Path(__file__).with_name("pom.xml")
JARS: Final = Path(__file__).resolve().parents[3] / ".cache" / "elasticmq"
CONFIG: Final = """\
include classpath("application.conf")
node-address {{ port = {port}, host = "127.0.0.1" }}
rest-sqs {{ bind-port = {port}, bind-hostname = "127.0.0.1", sqs-limits = strict }}
rest-stats {{ enabled = false }}
queues-storage {{ enabled = false }}
messages-storage {{ enabled = true, uri = "jdbc:h2:{data}/messages{option}" }}
"""
WRITTEN: Final = ";WRITE_DELAY=0"
DURABILITIES: Final = {
    WRITTEN: "after it was written to a file, which nothing syncs",
    "": "before it is written to a file, within half a second",
}


@contextlib.asynccontextmanager
async def elasticmq_running(
    base: Path, option: str
) -> AsyncIterator[tuple[WayFacts, str, list[int]]]:
    """Facts, address and processes; ``option`` of its database. Raises Skipped where it cannot be
    fetched or run.
    """
    _fetch()
    with scratch_directory("elasticmq", base) as directory:
        port = free_port()
        config = directory / "elasticmq.conf"
        config.write_text(CONFIG.format(data=directory, option=option, port=port))
        jars = ["-cp", f"{JARS}/*", f"-Dconfig.file={config}", "org.elasticmq.server.Main"]
        command = ["java", "-Xms512M", "-Xmx1G", *jars]
        with child(command, dict(os.environ), directory) as server:
            await server.wait_for(lambda: answers_on(port))
            facts = WayFacts(
                label=f"{NAME}, {'written' if option else 'as it comes'}",
                peer=NAME,
                durability=DURABILITIES[option],
                is_synced=False,
            )
            yield facts, f"http://127.0.0.1:{port}", [server.pid]


def elasticmq_facts() -> PeerFacts:
    found = re.search(r"<version>([\d.]+)</version>\s*<exclusions>", POM.read_text())
    return PeerFacts(
        name=NAME,
        version=found[1] if found else "unknown",
        setup="one server with a heap of 1 GiB for each row, messages-storage on",
    )


def _fetch() -> None:
    """Its jars, once. Raises Skipped."""
    if list(JARS.glob("elasticmq-server_*.jar")):
        return
    if shutil.which("java") is None or shutil.which("mvn") is None:
        raise Skipped("ElasticMQ needs Java and Maven")
    copy = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"]
    fetched = subprocess.run(
        [*copy, f"-DoutputDirectory={JARS}"], capture_output=True, text=True, check=False
    )
    if fetched.returncode:
        raise Skipped(f"Maven cannot fetch ElasticMQ: {fetched.stdout.strip()[-300:]}")
