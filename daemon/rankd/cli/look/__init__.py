"""Commands under "Look": queue, priorities, reasons, nodes, shares."""
