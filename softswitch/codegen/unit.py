"""The translation unit of a program."""

from __future__ import annotations

from collections.abc import Iterator

from softswitch.codegen.actions import Actions
from softswitch.codegen.calculations import Calculations
from softswitch.codegen.deparser import deparser, keep_views, kept_struct
from softswitch.codegen.digests import digest_words
from softswitch.codegen.expressions import Expressions
from softswitch.codegen.hints import hint_function
from softswitch.codegen.layout import Layout
from softswitch.codegen.locality import node_actions
from softswitch.codegen.parser import Parser
from softswitch.codegen.pipeline import PipelineCode
from softswitch.codegen.profiles import Profiles
from softswitch.codegen.rolls import plan
from softswitch.codegen.standard import accessors
from softswitch.codegen.state import (
    saved_functions,
    saved_struct,
    state_functions,
    state_struct,
)
from softswitch.codegen.tables import Tables
from softswitch.errors import UnsupportedConstruct
from softswitch.program import Program

MAX_HEADER_BYTES = 16384


def generate(program: Program) -> str:
    """Return the C source of a switch that runs `program`.

    Raises UnsupportedConstruct when the program uses something that has no translation.
    """
    return "\n".join(_lines(program)) + "\n"


def _lines(program: Program) -> Iterator[str]:
    layout = Layout(program, plan(program))
    expressions = Expressions(layout)
    calculations = Calculations(expressions)
    actions = Actions(expressions, calculations)
    yield '#define _GNU_SOURCE\n#include "arena.h"\n#include "wide.h"'
    yield from _sizes(layout)
    yield from layout.structs()
    yield from saved_struct(layout)
    yield from kept_struct(layout)
    yield from state_struct(layout)
    yield '#include "core.h"\n#include "digests.h"\n#include "log.h"\n#include "vectors.h"'
    yield from accessors(layout)
    yield from state_functions(layout)
    yield from saved_functions(layout)
    yield from keep_views(layout)
    yield from calculations.functions()
    single = list(layout.plan.single_nodes(program))
    called = {action for node in single for action in node_actions(program, node)}
    for action in program.actions:
        if action.index in called:
            yield from actions.function(action)
    yield from Tables(layout).definitions()
    yield from Profiles(layout, calculations).definitions()
    yield from Parser(expressions, actions).function()
    ingress = PipelineCode(expressions, program.ingress)
    hints = [code for _, code in ingress.hints]
    egress = PipelineCode(expressions, program.egress, sum(code.words for code in hints))
    yield from ingress.functions()
    yield from egress.functions()
    yield from hint_function([*hints, *(code for _, code in egress.hints)])
    yield from _before_deparser(actions)
    yield from deparser(layout)
    yield '#include "batch.h"'


def _sizes(layout: Layout) -> Iterator[str]:
    program = layout.program
    header_bytes = sum(program.headers[h].type.max_width // 8 for h in program.deparser)
    if header_bytes > MAX_HEADER_BYTES:
        raise UnsupportedConstruct(
            f"{header_bytes} bytes of headers (more than {MAX_HEADER_BYTES})", "the deparser"
        )
    sizes = {
        "SS_NUM_VALID": max(len(layout.valid_slots), 1),
        "SS_NUM_STACKS": max(len(program.stacks) + len(program.union_stacks), 1),
        "SS_TABLE_COUNT": len(program.tables),
        "SS_NUM_TABLES": max(len(program.tables), 1),
        "SS_NUM_VALUE_SETS": max(len(program.value_sets), 1),
        "SS_NUM_DIGESTS": max(len(program.digests), 1),
        "SS_DIGEST_WORDS": max((digest_words(d) for d in program.digests.values()), default=1),
        "SS_PROFILE_COUNT": len(program.action_profiles),
        "SS_NUM_PROFILES": max(len(program.action_profiles), 1),
        "SS_HEADROOM": (header_bytes + 127) // 64 * 64,
    }
    yield from (f"#define {name} {value}" for name, value in sizes.items())


def _before_deparser(actions: Actions) -> Iterator[str]:
    yield "static inline void ss_before_deparser(struct ss_ctx *c, struct ss_phv *p)"
    yield "{"
    yield "    (void)c; (void)p;"
    for i, primitive in enumerate(actions.program.deparser_primitives):
        yield from (f"    {line}" for line in actions.primitive(primitive, i, "return;"))
    yield "}"
