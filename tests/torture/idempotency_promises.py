"""What the engine promises of requests that come again; see ``promises.py``."""

from __future__ import annotations

from typing import Final

from tests.torture.promise import CRASH, Promise
from tests.torture.promise import engine_tests as _of

_REST: Final = "tests/mqservice/delivery/test_idempotency.py"
ONCE: Final = (
    Promise(
        "L4",
        "A message sent again under the same key is stored once for ten minutes, and gets the "
        "first response: also after a kill or a power failure at any moment, if the first was "
        "confirmed; and also when several requests arrive together.",
        (
            *CRASH,
            *_of("crash/crash_states", "a_power_cut_inside_recovery_keeps_every_promise"),
            *_of(
                "dedup/idempotent_puts",
                "two_that_come_together_are_one",
                "another_content_under_the_key_is_refused",
                "a_key_is_known_after_two_kills_without_a_checkpoint_of_its_own",
                "a_failed_write_of_keys_is_repeated",
                "memory_is_bounded_and_no_key_goes_before_its_time",
            ),
            f"{_REST}::test_a_key_is_known_after_the_engine_and_the_web_process_were_killed",
            f"{_REST}::test_requests_that_come_together_are_one",
        ),
        ("crash_states",),
    ),
)
