"""The gateway: lets users of this machine in, as the users that the kernel says they are."""
