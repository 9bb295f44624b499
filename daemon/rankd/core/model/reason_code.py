"""Codes of reasons for which a job does not start, as views show them. Nothing slow is imported here."""

QUEUE_QUOTA = "queue quota"
USER_LIMIT = "user limit"
NO_NODE_FITS = "no node fits"
RESOURCES = "resources"
RESERVED = "reserved"
ARRAY_LIMIT = "array limit"
