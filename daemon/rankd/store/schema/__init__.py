"""Tables and views."""
