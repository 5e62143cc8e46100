"""The compiled switch as ctypes functions."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_uint8, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from softswitch.errors import NoCompiler

U64_MASK = (1 << 64) - 1


class Match(ctypes.Structure):
    """struct ss_match: see runtime/tables.h."""

    _fields_ = (
        ("words", POINTER(c_uint64)),
        ("expansions", c_uint32),
        ("prefix_len", c_uint32),
        ("priority", c_int32),
    )


_U8S, _U32S, _U64S = POINTER(c_uint8), POINTER(c_uint32), POINTER(c_uint64)
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "ss_create": (c_void_p, []),
    "ss_destroy": (None, [c_void_p]),
    "ss_table_add": (c_int, [c_void_p, c_uint32, c_uint32, POINTER(Match), c_uint32, _U64S]),
    "ss_table_modify": (None, [c_void_p, c_uint32, c_uint32, c_uint32, _U64S]),
    "ss_table_delete": (None, [c_void_p, c_uint32, c_uint32, POINTER(Match)]),
    "ss_table_default": (None, [c_void_p, c_uint32, c_uint32, _U64S]),
    "ss_member_set": (c_int, [c_void_p, c_uint32, c_uint32, c_uint32, _U64S]),
    "ss_selection_set": (c_int, [c_void_p, c_uint32, c_uint32, c_int, _U32S, c_uint32]),
    "ss_value_set_write": (c_int, [c_void_p, c_uint32, _U64S, c_uint32, c_uint32]),
    "ss_meters_set": (c_int, [c_void_p, c_int, c_uint32, c_uint64, c_uint64, _U64S]),
    "ss_meters_clear": (c_int, [c_void_p, c_int, c_uint32, c_uint64, c_uint64]),
    "ss_meters_read": (c_int, [c_void_p, c_int, c_uint32, c_uint64, c_uint64, _U64S]),
    "ss_hits_read": (None, [c_void_p, c_uint32, _U32S, c_uint32, _U64S]),
    "ss_digest_enable": (None, [c_void_p, c_uint32, c_int]),
    "ss_digest_event": (c_int, [c_void_p]),
    "ss_digest_wake": (None, [c_void_p]),
    "ss_digest_take": (c_uint32, [c_void_p, _U64S, c_uint32]),
    "ss_digest_forget": (None, [c_void_p, c_uint32, _U64S, c_uint32, c_uint32]),
    "ss_clock_set": (None, [c_void_p, c_int64]),
    "ss_clock_read": (c_uint64, [c_void_p]),
    "ss_counters_read": (c_int, [c_void_p, c_int, c_uint32, c_uint64, c_uint64, _U64S]),
    "ss_counter_write": (c_int, [c_void_p, c_int, c_uint32, c_uint64, c_uint64, c_uint64]),
    "ss_registers_read": (None, [c_void_p, c_uint32, c_uint64, c_uint64, c_char_p]),
    "ss_registers_write": (None, [c_void_p, c_uint32, c_uint64, c_uint64, c_char_p]),
    "ss_group_set": (c_int, [c_void_p, c_uint32, c_int, _U32S, c_uint32]),
    "ss_session_set": (c_int, [c_void_p, c_uint32, c_int, _U32S, c_uint32, c_uint32]),
    "ss_inject": (c_int64, [c_void_p, c_uint32, c_char_p, c_uint32, POINTER(c_void_p)]),
    "ss_inject_batch": (
        c_uint64,
        [c_void_p, c_uint32, c_char_p, _U64S, c_uint32, c_uint32, _U64S],
    ),
    "ss_packet_out": (c_int, [c_void_p, c_uint32, c_char_p, c_uint32]),
    "ss_drop_stats": (None, [c_void_p, _U64S]),
    "ss_parser_errors": (None, [c_void_p, _U64S]),
    "ss_drop_reasons": (c_char_p, []),
    "ss_log_read": (c_int, [c_void_p, c_char_p]),
    "ss_batch": (c_uint64, [c_void_p, c_void_p, c_uint64]),
    "ss_batch_end": (None, [c_void_p]),
    "ss_batch_calls": (c_char_p, []),
    "ss_run": (c_int, [c_void_p]),
    "ss_stop": (None, [c_void_p, c_int]),
    "ss_port_attach": (c_int, [c_void_p, c_uint32, c_char_p, c_uint32]),
    "ss_port_detach": (c_int, [c_void_p, c_uint32]),
    "ss_port_stats": (c_int, [c_void_p, c_uint32, _U64S]),
    "ss_link_set": (c_int, [c_void_p, c_uint32, c_uint32, _U64S, c_int]),
    "ss_link_down": (c_int, [c_void_p, c_uint32, c_uint32, c_int]),
    "ss_link_stats": (c_int, [c_void_p, c_uint32, c_uint32, _U64S]),
    "ss_capture_start": (c_int, [c_void_p, c_char_p, c_uint32, c_uint64]),
    "ss_capture_name": (None, [c_void_p, c_uint32, c_char_p]),
    "ss_capture_stop": (None, [c_void_p, _U64S]),
    "ss_capture_stats": (None, [c_void_p, _U64S]),
    "ss_advance": (c_int64, [c_void_p, c_uint64, POINTER(c_void_p)]),
    "ss_cpu_port": (None, [c_void_p, c_int32]),
    "ss_cpu_event": (c_int, [c_void_p]),
    "ss_cpu_receive": (c_int64, [c_void_p, c_char_p, c_uint32]),
}


def load_library(path: Path) -> ctypes.CDLL:
    """Load a compiled switch and declare its functions."""
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise NoCompiler(f"the compiled switch {path} cannot be loaded: {error}") from None
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


def u64_array(values: Sequence[int]) -> ctypes.Array[c_uint64]:
    """Return a C array of the values."""
    return (c_uint64 * max(len(values), 1))(*values)


def u32_array(values: Sequence[int]) -> ctypes.Array[c_uint32]:
    """Return a C array of the values."""
    return (c_uint32 * max(len(values), 1))(*values)


def words(values: Sequence[int], widths: Sequence[int]) -> list[int]:
    """Cut numbers of the given bit widths into 64-bit words, low word first."""
    result: list[int] = []
    for value, width in zip(values, widths, strict=True):
        result += [value >> low & U64_MASK for low in range(0, width, 64)]
    return result


def split_records(raw: bytes) -> list[tuple[int, bytes]]:
    """Split what ss_inject returns: records of port, length (native uint32) and bytes."""
    records: list[tuple[int, bytes]] = []
    offset = 0
    while offset < len(raw):
        port, size = struct.unpack_from("=II", raw, offset)
        offset += 8 + size
        records.append((port, raw[offset - size : offset]))
    return records
