"""``rankd up``: broker, database and all services on one machine."""
