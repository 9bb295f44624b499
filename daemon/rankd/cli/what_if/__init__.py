"""Commands under "What if": evaluation, other configurations, imports."""
