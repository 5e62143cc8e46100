"""The controller of a job as a process: it owns the job's epochs and the state of its switch."""
