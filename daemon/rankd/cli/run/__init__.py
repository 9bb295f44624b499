"""Commands under "Run": everything on this machine, and the demo."""
