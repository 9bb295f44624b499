"""NATS: the connection, the streams, pull consumers, micro-service endpoints. The one fence around nats-py."""
