"""Limits of the data plane and the sockets, in one place."""

from __future__ import annotations

from typing import Final

from mqservice.protocol.limits import FRAME_BYTES_MAX

KIB: Final = 1024
MIB: Final = 1024 * KIB
SECOND_MS: Final = 1_000
HOUR_MS: Final = 3_600 * SECOND_MS
DAY_MS: Final = 24 * HOUR_MS

# One message. The engine's record holds 32,767 bytes of properties, tag, keys and system ones
# included: 16 KiB + 16 * 255 + 255 leaves more than 12 KiB for the latter.
BODY_BYTES_MAX: Final = 4 * MIB
KEY_COUNT_MAX: Final = 16
KEY_BYTES_MAX: Final = 255
TAG_BYTES_MAX: Final = 255
MESSAGE_GROUP_CHARS_MAX: Final = 128  # SQS's
PROPERTY_COUNT_MAX: Final = 128
PROPERTIES_BYTES_MAX: Final = 16 * KIB

# One request. A JSON body grows by a third in base64 and may be escaped; twice its size plus room
# for the fields beside it is enough for both, and text that escapes worse can be sent as raw bytes.
BATCH_COUNT_MAX: Final = 1_000
BATCH_BYTES_MAX: Final = 4 * MIB
JSON_GROWTH: Final = 2
JSON_FIELDS_BYTES: Final = 64 * KIB
REQUEST_BYTES_MAX: Final = JSON_GROWTH * BODY_BYTES_MAX + JSON_FIELDS_BYTES
SMALL_REQUEST_BYTES_MAX: Final = MIB  # receive and settle: 1,000 receipts are about 200 KiB
BODY_ARRIVAL_MS_MAX: Final = 30 * SECOND_MS
FAULTS_MAX: Final = 20  # faults listed for one refused batch

# Receive and settle.
RECEIVE_COUNT_DEFAULT: Final = 32
RECEIVE_COUNT_MAX: Final = 256
RECEIVE_BYTES_MAX: Final = 4 * MIB
WAIT_MS_DEFAULT: Final = 20 * SECOND_MS
WAIT_MS_MAX: Final = 30 * SECOND_MS
LEASE_MS_MIN: Final = SECOND_MS
LEASE_MS_MAX: Final = 12 * HOUR_MS
AUTO_EXTEND_MS_MAX: Final = 3 * HOUR_MS
ATTEMPT_ID_CHARS_MAX: Final = 128  # SQS's
ACK_UPTO_COUNT_MAX: Final = 16  # each stands for up to ``RECEIVE_COUNT_MAX`` messages
NACK_DELAY_MS_MAX: Final = 365 * DAY_MS
NACK_REASON_CHARS_MAX: Final = 1_000
SETTLE_COUNT_MAX: Final = 1_000
# No message outlives the longest retention, so neither does a receipt.
RECEIPT_LIFE_MS: Final = 30 * DAY_MS

# Browse, search and pull. A page holds at least one message, whatever its size.
BROWSE_COUNT_DEFAULT: Final = 32
BROWSE_COUNT_MAX: Final = 256
BROWSE_BYTES_MAX: Final = 4 * MIB
# Of messages that are held back while queues are merged; those of a queue that is not next are
# read again when it is.
MERGE_BYTES_MAX: Final = 8 * MIB
PULLS_AT_ONCE_MAX: Final = 8
# A page ends early after so many pulls and two for each queue: about 50 ms of the engine, in which
# it passes over some 200,000 messages without the wanted tag.
PAGE_PULL_COUNT_MAX: Final = 256
# A page with a filter on properties ends after so many pulls and two for each queue, of 5 ms of the
# engine each at most: some 26,000 messages that a filter passes over.
SCAN_PULL_COUNT_MAX: Final = 32
# The same with a text in the body, for which each pull brings 256 messages.
TEXT_PULL_COUNT_MAX: Final = 12
# Of messages that were looked through for a text, whether they had it or not.
SCAN_BYTES_MAX: Final = 16 * MIB
CONTAINS_BYTES_MAX: Final = 255
# A page of dead letters of one cause ends after so many pages of ``BROWSE_COUNT_MAX`` that were
# read for it, or so long: a reason that is made for it takes a few milliseconds to compare.
CAUSE_PAGES_MAX: Final = 32
CAUSE_MS_MAX: Final = SECOND_MS
REASON_QUERY_CHARS_MAX: Final = 1_000
# One page asks the key index so often while nothing it found has the wanted tag or queue.
PAGE_LOOK_UP_COUNT_MAX: Final = 16
CURSOR_CHARS_MAX: Final = 8 * KIB
QUERY_BYTES_MAX: Final = 16 * KIB

# WebSocket; what its frames state is in ``mqservice.protocol.limits``.
FRAME_BYTES_HARD_MAX: Final = 2 * FRAME_BYTES_MAX
FRAME_BYTES_DEFAULT: Final = (
    MIB  # what the server sends at most; common client libraries take 1 MiB
)
FRAME_BYTES_MIN: Final = 16 * KIB
# JSON has to be read before it is known how much is in it. Above this size, with more commas than
# that outside and inside of strings, its lists are counted before they are decoded.
COUNTED_JSON_BYTES: Final = 64 * KIB
COUNTED_JSON_COMMAS: Final = 16_000
FRAME_MESSAGES_MAX: Final = 250  # so that the largest credit is four frames
# How long a subscription waits for messages with one request: a thousand that are idle ask the
# engine three times a second.
PUSH_WAIT_MS: Final = 5 * 60 * SECOND_MS
SUBSCRIPTION_COUNT_MAX: Final = 64
LATE_TAG_COUNT_MAX: Final = 1_000
HELLO_MS: Final = 10 * SECOND_MS
STALL_MS: Final = 10 * SECOND_MS
DRAIN_GRACE_MS: Final = 2 * SECOND_MS
# How long a session waits for its client to come back, and how much of it is kept meanwhile: the
# latter is some 20,000 messages.
RESUME_TTL_MS_DEFAULT: Final = 30 * SECOND_MS
RESUME_TTL_MS_MAX: Final = 5 * 60 * SECOND_MS
SAVED_SESSION_BYTES_MAX: Final = MIB
HAND_OVER_MS_MAX: Final = 2 * SECOND_MS  # for another process to hand a session over
HAVE_TAG_COUNT_MAX: Final = 1_000  # of one subscription, beside those up to a tag
# The engine takes a member that is silent for 120 s for gone.
ANNOUNCE_MS: Final = 40 * SECOND_MS
# The engine says every second that too much is in flight; once it no longer does, it is over.
BLOCKED_MS: Final = 2_500
RECONNECT_MS: Final = 500
