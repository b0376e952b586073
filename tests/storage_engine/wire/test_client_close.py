"""A blocking client is closed by another thread, whatever its own waits for."""

from __future__ import annotations

import queue
import socket
import threading
from pathlib import Path

import pytest

from storage_engine.errors import StoreUnavailable
from storage_engine.wire.frames import FrameDecoder, encode_frame, encode_struct
from storage_engine.wire.operations import Op
from storage_engine.wire.sync_client import StoreClient
from tests.storage_engine.wire.test_client_puts import HELLO


@pytest.mark.timeout(60)
def test_what_waits_for_an_engine_that_hangs_ends_when_the_client_is_closed(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    is_asked = threading.Event()
    outcomes: queue.Queue[BaseException] = queue.Queue()

    def hang(listener: socket.socket) -> None:
        """Greets, and answers nothing else."""
        connection, _ = listener.accept()
        with connection:
            decoder = FrameDecoder(1 << 20)
            while chunk := connection.recv(1 << 16):
                for frame in decoder.feed(chunk):
                    if frame.op == Op.HELLO:
                        reply = encode_frame(Op.HELLO, frame.request_id, encode_struct(HELLO))
                        connection.sendall(reply)
                    else:
                        is_asked.set()

    def ask(client: StoreClient) -> None:
        try:
            client.topic_list()
        except BaseException as exc:
            outcomes.put(exc)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        client = StoreClient(path, client_name="test", timeout_ms=600_000)
        threads = [
            threading.Thread(target=hang, args=(listener,), daemon=True),
            threading.Thread(target=ask, args=(client,), daemon=True),
        ]
        for thread in threads:
            thread.start()
        is_asked.wait()
        client.close()
        assert isinstance(outcomes.get(), StoreUnavailable)
        for thread in threads:
            thread.join()
