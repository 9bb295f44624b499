"""What each stream and each consumer has to look like. Nothing here asks a broker.

Every stream but that of submissions can be made anew from the database.
"""

from __future__ import annotations

from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    DiscardPolicy,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)

from rankd.wire.subject import (
    DEAD_LETTER_PATTERN,
    ENQUEUE_PATTERN,
    NOTIFIER,
    PREFIX,
    STREAM_DEAD_LETTERS,
    STREAM_EVENTS,
    STREAM_SUBMISSIONS,
    job_event_pattern,
)

DUPLICATE_WINDOW_S = 600
EVENTS_KEPT_S = 7 * 86400
"""The stream drops its oldest events first. The database still has them."""

LEAST_STREAM_BYTES = 13 * 2**20
"""The least bytes of all streams together. With less, a single large submission would not fit."""
EVENTS_PARTS, ENQUEUED_PARTS, DEAD_LETTERS_PARTS = 8, 4, 1
"""How the streams share the bytes, in thirteenths."""

ENQUEUED_WINDOW_S = 0.1
"""The shortest window that the server allows. The stream would treat equal message ids of two users as one message;
the records distinguish users."""

DEAD_LETTERS_KEPT_S = 30 * 86400
"""The stream is a copy: the records stay in the database until a user retries or drops them."""

NOTIFIER_ACK_WAIT_S = 30.0
NOTIFIER_MOST_PENDING = 256
"""Messages that the notifier may have at once, each with at most 500 events."""

SUBMISSIONS_ACK_WAIT_S = 5.0
"""The server delivers a message again if it was not acknowledged for this long. Handlers are idempotent, so a second
delivery does no harm."""


def wanted_streams(total_bytes: int, replicas: int = 1) -> list[StreamConfig]:
    """The streams; ``total_bytes`` of all together. Their consumers have as many copies as their streams."""
    part = total_bytes // (EVENTS_PARTS + ENQUEUED_PARTS + DEAD_LETTERS_PARTS)
    return [
        StreamConfig(
            name=STREAM_SUBMISSIONS,
            subjects=[ENQUEUE_PATTERN],
            retention=RetentionPolicy.WORK_QUEUE,
            storage=StorageType.FILE,
            discard=DiscardPolicy.NEW,
            max_bytes=ENQUEUED_PARTS * part,
            duplicate_window=ENQUEUED_WINDOW_S,
            num_replicas=replicas,
        ),
        StreamConfig(
            name=STREAM_DEAD_LETTERS,
            subjects=[DEAD_LETTER_PATTERN],
            retention=RetentionPolicy.LIMITS,
            storage=StorageType.FILE,
            max_age=DEAD_LETTERS_KEPT_S,
            max_bytes=DEAD_LETTERS_PARTS * part,
            duplicate_window=DUPLICATE_WINDOW_S,
            num_replicas=replicas,
        ),
        StreamConfig(
            name=STREAM_EVENTS,
            subjects=[f"{PREFIX}.event.>"],
            retention=RetentionPolicy.LIMITS,
            storage=StorageType.FILE,
            max_age=EVENTS_KEPT_S,
            max_bytes=EVENTS_PARTS * part,
            duplicate_window=DUPLICATE_WINDOW_S,
            num_replicas=replicas,
        ),
    ]


def notifiers_consumer() -> ConsumerConfig:
    """The consumer of the notifier, which begins at the end of the stream: the records have what came before."""
    return ConsumerConfig(
        durable_name=NOTIFIER,
        deliver_policy=DeliverPolicy.NEW,
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=NOTIFIER_ACK_WAIT_S,
        max_ack_pending=NOTIFIER_MOST_PENDING,
        filter_subject=job_event_pattern(),
    )


def pulled_consumer(durable: str, subjects: list[str]) -> ConsumerConfig:
    """The consumer of a service that reads a work queue."""
    return ConsumerConfig(
        durable_name=durable,
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=SUBMISSIONS_ACK_WAIT_S,
        max_ack_pending=-1,
        filter_subjects=subjects,
    )


COMPARED = (
    "subjects",
    "retention",
    "storage",
    "discard",
    "max_age",
    "duplicate_window",
    "num_replicas",
    "max_msg_size",
)
COMPARED_OF_CONSUMERS = ("ack_policy", "ack_wait", "max_ack_pending", "deliver_policy", "num_replicas")
LEFT_OUT = (None, 0, -1, "")
"""Values that mean the same to the server as leaving the field out."""


def differences(wanted: StreamConfig | ConsumerConfig, found: StreamConfig | ConsumerConfig) -> list[str]:
    """The fields in which they differ: ``num_replicas 1 in place of 3``."""
    names = COMPARED if isinstance(wanted, StreamConfig) else COMPARED_OF_CONSUMERS
    pairs = ((name, getattr(wanted, name), getattr(found, name)) for name in names)
    return [
        f"{name} {_shown(there)} in place of {_shown(here)}"
        for name, here, there in pairs
        if here != there and not (here in LEFT_OUT and there in LEFT_OUT)
    ]


def _shown(value: object) -> str:
    return str(getattr(value, "value", value))
