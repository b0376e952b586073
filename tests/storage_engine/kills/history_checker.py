"""Judges a history: every anomaly has a name (those of Jepsen's Kafka checks where one exists).

History ──▶ [anomalies] ──▶ [(name, detail), …]; an empty list when every promise was kept

lost-write           acked, and not there at the end
inconsistent-offset  something else stands at an acked offset
aborted-read         refused, and there or delivered all the same
phantom              there or delivered, and nobody sent it to that queue
duplicate            one message at two offsets: nobody sent it twice
gap                  offsets at the end are not 0, 1, 2, …
nonmonotonic-send    answered before another was begun, and behind it in the queue; this covers
                     the order of one producer
changed-read         delivered at an offset where something else stands at the end
duplicate-after-ack  delivered again although its settle had been answered before
unseen               there, and never delivered to anybody
"""

from __future__ import annotations

from collections import defaultdict

from tests.storage_engine.kills.outcomes import History, Outcome, Queue

Anomaly = tuple[str, str]


def anomalies(history: History) -> list[Anomaly]:
    """All anomalies of a history that ended with a drain."""
    served = _served(history)
    return [
        *_sends(history, served),
        *_places(history, served),
        *_order(history),
        *_deliveries(history, served),
    ]


def _served(history: History) -> dict[Queue, dict[int, str]]:
    served: dict[Queue, dict[int, str]] = defaultdict(dict)
    for message in history.served:
        served[message.queue][message.queue_offset] = message.digest
    return served


def _sends(history: History, served: dict[Queue, dict[int, str]]) -> list[Anomaly]:
    found = []
    there = {
        (queue, digest) for queue, by_offset in served.items() for digest in by_offset.values()
    }
    delivered = {(delivery.queue, delivery.digest) for delivery in history.deliveries}
    present = there | delivered
    for send in history.sends:
        name = f"{send.producer} #{send.sequence} in {send.queue} at {send.queue_offset}"
        if send.outcome is Outcome.ACKED:
            at_offset = served.get(send.queue, {}).get(send.queue_offset)
            if (send.queue, send.digest) not in there:
                found.append(("lost-write", name))
            elif at_offset != send.digest:
                found.append(("inconsistent-offset", name))
        elif send.outcome is Outcome.REFUSED and (send.queue, send.digest) in present:
            found.append(("aborted-read", name))
    return found


def _places(history: History, served: dict[Queue, dict[int, str]]) -> list[Anomaly]:
    found = []
    sent = {(send.queue, send.digest) for send in history.sends}
    for queue, by_offset in served.items():
        if sorted(by_offset) != list(range(len(by_offset))):
            found.append(("gap", f"{queue}: {len(by_offset)} of {max(by_offset) + 1}"))
        first_at: dict[str, int] = {}
        for queue_offset, digest in by_offset.items():
            if (queue, digest) not in sent:
                found.append(("phantom", f"{queue} at {queue_offset}"))
            if first_at.setdefault(digest, queue_offset) != queue_offset:
                found.append(("duplicate", f"{queue} at {first_at[digest]} and {queue_offset}"))
    return found


def _order(history: History) -> list[Anomaly]:
    """Sends by the time they were begun, against the highest offset answered before that."""
    found = []
    by_queue: dict[Queue, list[tuple[int, int, int]]] = defaultdict(list)
    for send in history.sends:
        if send.outcome is Outcome.ACKED:
            # Ends sort before beginnings of the same moment.
            by_queue[send.queue].append((send.ended_ns, 0, send.queue_offset))
            by_queue[send.queue].append((send.begun_ns, 1, send.queue_offset))
    for queue, events in by_queue.items():
        highest = -1
        for _, is_begin, queue_offset in sorted(events):
            if not is_begin:
                highest = max(highest, queue_offset)
            elif queue_offset <= highest:
                found.append(("nonmonotonic-send", f"{queue} at {queue_offset} behind {highest}"))
    return found


def _deliveries(history: History, served: dict[Queue, dict[int, str]]) -> list[Anomaly]:
    found = []
    sent = {(send.queue, send.digest) for send in history.sends}
    settled_ns: dict[tuple[Queue, int], int] = {}
    for settle in history.settles:
        place = settle.queue, settle.queue_offset
        if settle.is_answered:
            settled_ns[place] = min(settle.ended_ns, settled_ns.get(place, settle.ended_ns))
    seen = set()
    for delivery in history.deliveries:
        place = delivery.queue, delivery.queue_offset
        seen.add(place)
        if (delivery.queue, delivery.digest) not in sent:
            found.append(("phantom", f"delivered {place}"))
        if served.get(delivery.queue, {}).get(delivery.queue_offset) != delivery.digest:
            found.append(("changed-read", f"delivered {place}"))
        if delivery.at_ns > settled_ns.get(place, delivery.at_ns):
            found.append(("duplicate-after-ack", f"delivered {place}"))
    for queue, by_offset in served.items():
        for queue_offset in by_offset:
            if (queue, queue_offset) not in seen:
                found.append(("unseen", f"{queue} at {queue_offset}"))
    return found
