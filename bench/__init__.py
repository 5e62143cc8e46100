"""Benchmarks: ratios measured side by side in one run, and the conditions of it."""
