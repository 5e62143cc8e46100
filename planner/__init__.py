"""The planner: is the network the bottleneck of a job, and what would remove it (section 9)."""
