"""What the service as a whole promises while parts of it fail; see ``promises.py``."""

from __future__ import annotations

from typing import Final

from tests.torture.promise import Promise

_NEMESIS: Final = "tests/acceptance/nemesis/test_nemesis.py"
_NETWORKS: Final = "tests/acceptance/partitions/test_partitions.py"
_MISBEHAVED: Final = f"{_NEMESIS}::test_clients_that_misbehave_harm_nobody_else"
SERVICE: Final = (
    Promise(
        "I2",
        "A tenant beyond its quota gets errors and does not stop the others.",
        (_MISBEHAVED,),
        ("system_faults", "soak"),
    ),
    Promise(
        "B1",
        "No process grows because of clients that never read, vanish or send too much.",
        (_MISBEHAVED, "tests/acceptance/nemesis/test_growth.py"),
        ("soak",),
    ),
    Promise(
        "B2",
        "Under overload every request gets a response: its messages are stored, or rejected "
        "with the time after which to retry.",
        (_MISBEHAVED,),
        ("system_faults", "soak"),
    ),
    Promise(
        "B3",
        "When a fault of a process, a database, a network or a client is over, the service "
        "recovers without help: messages are accepted and delivered again, no acknowledged "
        "message is lost, and none is delivered twice without a cause. Faults of parts that "
        "messages do not pass through do not stop messages.",
        (
            f"{_NEMESIS}::test_kills_on_the_way_of_messages_break_no_promise",
            f"{_NEMESIS}::test_messages_flow_while_other_processes_are_killed",
            f"{_NEMESIS}::test_what_is_stalled_continues_afterwards",
            f"{_NETWORKS}::test_clients_that_are_cut_off_lose_nothing",
            f"{_NETWORKS}::test_the_control_plane_answers_while_postgresql_is_cut_off",
            f"{_NETWORKS}::test_messages_flow_while_valkey_is_cut_off",
            f"{_NETWORKS}::test_workers_and_beat_continue_after_they_were_cut_off",
            "tests/acceptance/test_full_disk.py",
        ),
        ("system_faults", "partitions", "full_disks"),
    ),
)
