"""The intake: requests of users and nodes, reports of agents, and the events that are published about them."""
