"""Accessors of the metadata that the switch itself reads and writes.

A field that the program does not declare gets an accessor that does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from softswitch.codegen.layout import Layout, c_type, is_wide
from softswitch.errors import UnsupportedConstruct

_SM, _IM, _QM = "standard_metadata", "intrinsic_metadata", "queueing_metadata"
_FIELDS = {
    "ingress_port": (_SM,),
    "egress_spec": (_SM,),
    "egress_port": (_SM,),
    "instance_type": (_SM,),
    "packet_length": (_SM,),
    "parser_error": (_SM,),
    "checksum_error": (_SM,),
    "mcast_grp": (_IM, _SM),
    "egress_rid": (_IM, _SM),
    "ingress_global_timestamp": (_IM, _SM),
    "egress_global_timestamp": (_IM, _SM),
    "enq_timestamp": (_QM, _SM),
}
_REQUIRED = ("ingress_port", "egress_spec", "egress_port", "instance_type", "packet_length")


def accessors(layout: Layout) -> Iterator[str]:
    """Yield ss_set_* for each field, and ss_get_* for those that decide about a packet."""
    for name, headers in _FIELDS.items():
        found = None
        for header in headers:
            found = found or layout.program.find_field(f"{header}.{name}")
        if found is None and name in _REQUIRED:
            raise UnsupportedConstruct(f"program without standard_metadata.{name}", "headers")
        yield from _accessor(layout, name, found)


def _accessor(layout: Layout, name: str, found: tuple[int, int] | None) -> Iterator[str]:
    target = ""
    if found is not None:
        width = layout.program.field(*found).width
        if is_wide(width):
            raise UnsupportedConstruct(f"{name} of {width} bits", "standard metadata")
        mask = f" & UINT64_C({(1 << width) - 1})" if width < 64 else ""
        target = f"{layout.static_field(*found)} = ({c_type(width)})(v{mask});"
    yield f"static inline void ss_set_{name}(struct ss_phv *p, uint64_t v)"
    yield f"{{ (void)p; (void)v; {target} }}"
    if name in ("egress_spec", "mcast_grp"):
        value = "0" if found is None else f"(uint64_t){layout.static_field(*found)}"
        yield f"static inline uint64_t ss_get_{name}(const struct ss_phv *p)"
        yield f"{{ (void)p; return {value}; }}"
