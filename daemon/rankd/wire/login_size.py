"""How large a request over ``login.sock`` may be. Imports nothing, because `rankd submit` uses it."""

MOST_REQUEST_BYTES = 4 * 2**20
"""Of one request. Several jobs go in several requests."""

MOST_ANSWER_BYTES = 64 * 2**20
"""Of one answer: the most that a NATS server lets through. A gateway that sends more is not rankd's."""
