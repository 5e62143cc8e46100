"""Placing: which cell each hot key gets (section 6 of the design)."""
