"""The public port, held; the inner ports, remembered."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from mqservice.supervisor.errors import ConfigInvalid, PortTaken
from mqservice.supervisor.ports import choose_ports, find_free_port, is_port_free, reserve_port


def test_listening_program_is_noticed_even_when_it_would_share_the_port() -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        with pytest.raises(PortTaken, match=f"{port}.*MQ_PORT"):
            reserve_port("127.0.0.1", port)


def test_reserved_port_is_ours_for_web_workers_only() -> None:
    with reserve_port("127.0.0.1", find_free_port()) as holder:
        port = holder.getsockname()[1]
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind(("127.0.0.1", port))
        with socket.socket() as worker:
            worker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            worker.bind(("127.0.0.1", port))
            worker.listen()
            with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
                accepted, address = worker.accept()
                accepted.close()
                assert address == client.getsockname()


def test_address_of_another_machine_is_refused() -> None:
    with pytest.raises((ConfigInvalid, PortTaken)):
        reserve_port("192.0.2.1", 8000)


def test_privileged_port_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(holder: socket.socket, address: object) -> None:
        raise PermissionError

    monkeypatch.setattr(socket.socket, "bind", refuse)
    with pytest.raises(ConfigInvalid, match=r"not allowed to use port 80\. Set MQ_PORT to 1024"):
        reserve_port("127.0.0.1", 80)


def test_ports_are_remembered_while_they_are_free(tmp_path: Path) -> None:
    path = tmp_path / "ports.json"

    first = choose_ports(path, ("postgres", "valkey"))

    assert choose_ports(path, ("postgres", "valkey")) == first
    assert len(set(first.values())) == 2
    assert json.loads(path.read_text()) == first


def test_remembered_port_that_someone_took_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "ports.json"
    first = choose_ports(path, ("postgres", "valkey"))
    with socket.create_server(("127.0.0.1", first["postgres"])):
        assert not is_port_free(first["postgres"])

        second = choose_ports(path, ("postgres", "valkey"))

    assert second["postgres"] != first["postgres"]
    assert second["valkey"] == first["valkey"]
    assert json.loads(path.read_text()) == second


@pytest.mark.parametrize("content", ["", "[]", '{"postgres": "x"}', '{"postgres": 99999}'])
def test_damaged_memory_is_as_good_as_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "ports.json"
    path.write_text(content)

    assert is_port_free(choose_ports(path, ("postgres",))["postgres"])
