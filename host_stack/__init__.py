"""The host stack: wire format, arithmetic, transport, worker and server."""
