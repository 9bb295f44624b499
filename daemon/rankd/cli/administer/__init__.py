"""Commands under "Administer": nodes, reloads, diagnosis."""
