"""A program that forks others, which need not import again what it has imported for all of them.

    python -m tests.starter DESCRIPTOR MODULE … ◀── Order; stdin, stdout, stderr, status
                                                 └──▶ a process for each; status: pid, exit code

``forked.py`` starts it and gives the orders.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

ORDER_BYTES_MAX: Final = 1 << 17


class Order(NamedTuple):
    """A process. ``entry``: what it calls, written as in ``[project.scripts]``; its exit code is
    what that returns. ``argv``: with the program's name. Bytes that are no UTF-8 are surrogates, as
    Python has them.
    """

    entry: str
    argv: list[str]
    environ: dict[str, str]
    directory: str

    def encode(self) -> bytes:
        return json.dumps(self).encode()


def main() -> Order:
    """Until the other end is closed; returns in each forked process, which then carries it out."""
    for module in sys.argv[2:]:
        importlib.import_module(module)
    gc.freeze()  # a process that looks through all of this for garbage copies each page of it
    orders = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whoever has waited for a process leaves nothing
    while True:
        order, descriptors, _, _ = socket.recv_fds(orders, ORDER_BYTES_MAX, 4)
        if not order:
            sys.exit()
        if os.fork() == 0:
            orders.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            status = descriptors.pop()
            wait_for_process(status, descriptors)
            os.close(status)
            return become(order, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def wait_for_process(status: int, descriptors: list[int]) -> None:
    """Returns in the process; what waits for it ends here."""
    pid = os.fork()
    if pid == 0:
        return
    for descriptor in descriptors:
        os.close(descriptor)
    os.write(status, b"%d\n" % pid)
    _, ended = os.waitpid(pid, 0)
    os.write(status, b"%d\n" % os.waitstatus_to_exitcode(ended))
    os._exit(0)


def become(encoded: bytes, descriptors: list[int]) -> Order:
    """The process that the order describes."""
    for standard, descriptor in enumerate(descriptors):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    order = Order(*json.loads(encoded))
    os.chdir(order.directory)
    os.environ.clear()
    os.environ.update(order.environ)
    sys.argv = order.argv
    return order


if __name__ == "__main__":
    # Any: an exit code, or none where it ends the process itself.
    run: Callable[[], Any] = pkgutil.resolve_name(main().entry)
    sys.exit(run())
