"""Notifications of users: where they may go, what they say, and when they are sent."""
