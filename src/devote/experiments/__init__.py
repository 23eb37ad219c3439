"""Studies as values: cells that are done once, and figures made of them."""
