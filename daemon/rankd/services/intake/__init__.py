"""The intake: requests of users and nodes, reports of agents, and what is published of them."""
