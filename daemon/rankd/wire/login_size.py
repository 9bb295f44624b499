"""How large a request over ``login.sock`` may be. Imports nothing, because `rankd submit` uses it."""

MOST_REQUEST_BYTES = 4 * 2**20
"""Of one request. Several jobs go in several requests."""
