"""Benchmarks with pinned conditions."""
