"""The audit of a job: what was pushed is what was applied, each gradient once and bit for bit."""
