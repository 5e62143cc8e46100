"""The job API of the controller: its messages, and a client of it for the server of a job."""
