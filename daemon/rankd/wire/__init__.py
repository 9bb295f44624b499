"""The bus contract, in one place: subjects, messages, encoding. Pure; docs/reference/bus.md describes it for users."""
