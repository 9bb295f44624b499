"""Shared by all services: start and stop, following configurations and inputs, statistics."""
