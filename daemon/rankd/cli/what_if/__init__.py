"""Commands under "What if": evaluation, other configurations, the live state."""
