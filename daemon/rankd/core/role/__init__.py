"""Roles of services: one instance holds a role, others stand by."""
