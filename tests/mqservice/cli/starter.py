"""A program that runs commands: forks one for each order that comes over the socket it is given.

order: JSON of arguments and environ; stdin, stdout, stderr, status ──▶ status: pid, exit code
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
from typing import Final

from typer.testing import CliRunner

from mqservice.cli.main import app

ORDER_BYTES_MAX: Final = 1 << 18


def main() -> None:
    """Until the other end is closed; returns in the forked command as well."""
    warm_up()
    gc.freeze()  # a command that looks through all of this for garbage copies each page of it
    orders = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whoever has waited for a command leaves nothing
    while True:
        order, descriptors, _, _ = socket.recv_fds(orders, ORDER_BYTES_MAX, 4)
        if not order:
            sys.exit()
        if os.fork() == 0:
            orders.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            wait_for_command(order, descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)


def warm_up() -> None:
    """Half of what a command imports it imports late, when it reads its options and connects."""
    nobody = {"MQ_BASE_URL": "http://127.0.0.1:1", "MQ_API_KEY": "none"}
    ended = CliRunner().invoke(app, ["topic", "list"], env=nobody)
    if "cannot reach" not in ended.output:
        raise RuntimeError(f"it was to get as far as connecting, and said: {ended.output}")


def wait_for_command(order: bytes, descriptors: list[int]) -> None:
    """Returns in the command; the process that waits for it ends here."""
    status = descriptors.pop()
    pid = os.fork()
    if pid == 0:
        os.close(status)
        become(order, descriptors)
        return
    for descriptor in descriptors:
        os.close(descriptor)
    os.write(status, b"%d\n" % pid)
    _, ended = os.waitpid(pid, 0)
    os.write(status, b"%d\n" % os.waitstatus_to_exitcode(ended))
    os._exit(0)


def become(order: bytes, descriptors: list[int]) -> None:
    """The process that the order describes."""
    for standard, descriptor in enumerate(descriptors):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    wanted = json.loads(order)
    os.environ.clear()
    os.environ.update(wanted["environ"])
    sys.argv = ["mqservice", *wanted["arguments"]]


if __name__ == "__main__":
    main()
    app()
