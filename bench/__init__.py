"""Benchmarks: ratios measured side by side in one run, with the conditions they were measured in."""
