"""Data sets, sparse models and training loops used by `libra run`."""
