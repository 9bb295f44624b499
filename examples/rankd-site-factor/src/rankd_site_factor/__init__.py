"""A factor for rankd: a value per user or account, from a CSV file."""
