"""Counters of a node: every message, and every reason for which one was set aside."""

from dataclasses import dataclass


@dataclass(slots=True)
class NodeStats:
    """Totals since the node was made. Bytes are those of the frames, without ZMTP and TCP."""

    messages_sent: int = 0
    bytes_sent: int = 0
    messages_received: int = 0
    bytes_received: int = 0
    malformed: int = 0
    unknown_sender: int = 0
    unknown_command: int = 0
    unknown_customer: int = 0
    unexpected_control: int = 0
    unexpected_request: int = 0
    unexpected_response: int = 0
    refused_registration: int = 0
    refused_barrier: int = 0
    heartbeats: int = 0
    undeliverable: int = 0
    resent: int = 0
    repeated: int = 0
    keys_lacking: int = 0
    handler_failed: int = 0
