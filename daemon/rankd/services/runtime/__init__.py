"""What all services share: start and stop, following configurations and inputs, statistics."""
