"""NATS: the connection, the streams, pull consumers, micro-service endpoints. Only this package uses nats-py."""
