"""A fast v1model switch: runs the bmv2 JSON that p4c makes, unchanged, and serves P4Runtime."""
