"""The role that one prioritizer at a time holds. Each of its writes checks that it still holds it."""

ROLE = "prioritizer"
