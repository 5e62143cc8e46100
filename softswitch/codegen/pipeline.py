"""Pipelines: control-flow nodes become labels, in topological order.

A pipeline of many nodes is cut into functions (see `locality`). Nodes only lead forwards: the
pieces run one after another, each from the node where the last one ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from softswitch.codegen.actions import may_stop, takes_locals
from softswitch.codegen.branchless import find_choice, statements
from softswitch.codegen.expressions import Expressions
from softswitch.codegen.hints import HintCode
from softswitch.codegen.locality import cut, fixed_call
from softswitch.codegen.plan import Roll
from softswitch.codegen.rolled import RolledCode
from softswitch.codegen.state import meter_run
from softswitch.codegen.tables import lookup_call
from softswitch.codegen.wide import constant
from softswitch.ir import ActionNode, ConditionNode, Node, TableNode
from softswitch.program import Pipeline, Table


class PipelineCode:
    """Translates one pipeline."""

    def __init__(
        self, expressions: Expressions, pipeline: Pipeline, first_hint_word: int = 0
    ) -> None:
        self.first_hint_word = first_hint_word
        self.e = expressions
        self.layout = expressions.layout
        self.program = expressions.layout.program
        self.pipeline = pipeline
        self.end = len(pipeline.nodes)
        self.plan = expressions.layout.plan
        self.chunks = cut(self.program, pipeline, self.plan)

    @cached_property
    def hints(self) -> list[tuple[Roll, HintCode]]:
        """The hints that rolls of this pipeline give, each with its place in what is kept."""
        made: list[tuple[Roll, HintCode]] = []
        word = self.first_hint_word
        for place, hint in self.plan.hints:
            if place.pipeline == self.pipeline.name:
                usage = self.plan.usages[place]
                code = HintCode(self.e, self.pipeline, place, usage, hint, word)
                word += code.words
                made.append((place, code))
        return made

    def functions(self) -> Iterator[str]:
        """Yield the functions of the pieces and the pipeline."""
        for number, (start, stop) in enumerate(self.chunks):
            yield from self._chunk(number, start, stop)
        yield f"static inline void ss_{self.pipeline.name}(struct ss_ctx *c, struct ss_phv *p)"
        yield "{"
        yield "    (void)c; (void)p;"
        yield f"    uint32_t n = {self.pipeline.init};"
        for number, (_, stop) in enumerate(self.chunks):
            yield f"    if (n < {stop}) n = ss_{self.pipeline.name}{number}(c, p, n);"
        yield "    (void)n;"
        yield "}"

    @staticmethod
    def _targets(node: Node) -> set[int]:
        if isinstance(node, ConditionNode):
            return {node.if_true, node.if_false}
        if isinstance(node, ActionNode):
            return {node.after}
        ends = [node.hit, node.miss, node.after_default, *node.by_action.values()]
        return {t for t in ends if t is not None}

    def _chunk(self, number: int, start: int, stop: int) -> Iterator[str]:
        outside = {t for node in self.pipeline.nodes[:start] for t in self._targets(node)}
        entries = sorted(t for t in outside | {self.pipeline.init} if start <= t < stop)
        yield (
            f"static {'inline' if len(self.chunks) == 1 else '__attribute__((noinline))'} "
            f"uint32_t ss_{self.pipeline.name}{number}"
            "(struct ss_ctx *c, struct ss_phv *restrict p, uint32_t n)"
        )
        piece = f"{self.pipeline.name}{number}"
        yield "{"
        if piece in self.layout.locals.values():
            yield f"    struct ss_local_{piece} locals = {{0}}, *l = &locals;"
        yield "    switch (n) {"
        for target in entries:
            yield f"    case {target}: goto N{target};"
        yield f"    default: return {self.end};"
        yield "    }"
        for i in range(start, stop):
            roll = self.plan.roll_at(self.pipeline, i)
            if roll is None:
                yield f"N{i}: __attribute__((unused));"
                yield from self._node(self.pipeline.nodes[i], (start, stop))
            elif i == roll.start:
                yield f"N{i}: __attribute__((unused));"
                for place, hint_code in self.hints:
                    if place == roll:
                        yield from (f"    {line}" for line in hint_code.save())
                code = RolledCode(self.e, self.pipeline, roll, self.plan.usages[roll])
                yield from (f"    {line}" for line in code.lines())
                yield f"    {self._go(roll.after, (start, stop))}"
        yield "}"

    def _go(self, target: int, bounds: tuple[int, int]) -> str:
        if bounds[0] <= target < bounds[1]:
            return f"goto N{target};"
        return f"return {target};"

    def _node(self, node: Node, bounds: tuple[int, int]) -> Iterator[str]:
        self.e.where = f"{self.pipeline.name}, node {node.name!r}"
        if isinstance(node, ConditionNode):
            choice = find_choice(self.e, self.pipeline.nodes, node, bounds)
            if choice is not None:
                yield "    {"
                yield from (f"    {line}" for line in statements(self.e, choice))
                yield f"    {self._go(choice.join, bounds)}"
                yield "    }"
                return
            yield f"    if ({self.e.boolean(node.condition)}) {self._go(node.if_true, bounds)}"
            yield f"    {self._go(node.if_false, bounds)}"
            return
        call = fixed_call(self.program, node)
        if call is not None:
            action, params, after = call
            kinds = self.program.actions[action].params
            args = [constant(v, k.width) for v, k in zip(params, kinds, strict=True)]
            yield f"    {self._call(action, args)}"
            yield f"    {self._go(after, bounds)}"
        elif isinstance(node, TableNode):
            yield from self._table(node, self.program.tables[node.table], bounds)

    def _call(self, action: int, args: list[str]) -> str:
        fixed = ["c", "p"]
        if takes_locals(self.layout, self.program.actions[action]):
            fixed.append("l")
        call = f"ss_action{action}({', '.join(fixed + args)});"
        if may_stop(self.program.actions[action]):
            call += f" if (p->x.exit) return {self.end};"
        return call

    def _table(self, node: TableNode, table: Table, bounds: tuple[int, int]) -> Iterator[str]:
        n = table.index
        yield "    {"
        yield f"    const struct ss_entry{n} *e = {lookup_call(self.layout, table)};"
        yield "    const bool hit = e != NULL; (void)hit;"
        yield from self._direct(table)
        yield f"    if (!hit) e = (const struct ss_entry{n} *)c->tables[{n}].default_entry;"
        yield from self._run(node, table, bounds)
        yield "    }"

    def _direct(self, table: Table) -> Iterator[str]:
        """Yield what belongs to an entry and happens before its action: counter, age, meter."""
        n = table.index
        hit, miss = [], []
        if table.with_counters:
            hit.append("ss_count(&t->counters[i], p);")
            miss.append("ss_count(&t->default_counter, p);")
        if table.support_timeout:
            hit.append("t->hits[i] = c->now_us;")
        meter = None if table.meter is None else self.program.meter_arrays[table.meter]
        if meter is not None and meter.target is not None:
            field = self.layout.static_field(*meter.target)
            width = self.program.field(*meter.target).width
            mask = " & 1" if width == 1 else ""
            hit.append(f"{field} = {meter_run(meter, '&t->meters[i]')}{mask};")
            # Like bmv2, a miss leaves the field alone, unless someone has given it a meter.
            run = meter_run(meter, "&t->default_meter")
            miss.append(f"if (t->default_meter.set) {field} = {run}{mask};")
        if hit:
            yield f"    struct ss_table *t = &c->tables[{n}];"
            yield "    if (hit) {"
            yield f"        const size_t i = (size_t)(e - (const struct ss_entry{n} *)t->entries);"
            yield from (f"        {line}" for line in hit)
            yield "    } else {"
            yield from (f"        {line}" for line in miss)
            yield "    }"

    def _run(self, node: TableNode, table: Table, bounds: tuple[int, int]) -> Iterator[str]:
        """Yield the call of the action of entry `e`, or of the member that it points to."""
        source, positions = "e", {name: i for i, name in enumerate(table.actions)}
        if table.profile is not None:
            profile, source = self.program.action_profiles[table.profile], "m"
            positions = {name: i for i, name in enumerate(profile.actions)}
            struct = f"const struct ss_member{profile.index}"
            yield f"    {struct} *m = ss_member{profile.index}(c, p, e->target);"
            yield "    switch (m ? m->action : 0) {"
        else:
            yield "    switch (e->action) {"
        for name, action in table.actions.items():
            position = positions[name]
            params = range(len(self.program.actions[action].params))
            args = [f"{source}->d{position}.a{i}" for i in params]
            jump = self._after(node, action, bounds)
            yield f"    case {position + 1}: {self._call(action, args)} {jump}"
        yield "    }"
        after_none = node.miss if node.miss is not None else node.after_default
        after_hit = node.hit if node.hit is not None else node.after_default
        if table.profile is not None and after_hit != after_none:  # an empty group is a hit
            yield f"    if (hit) {self._go(after_hit, bounds)}"
        yield f"    {self._go(after_none, bounds)}"

    def _after(self, node: TableNode, action: int, bounds: tuple[int, int]) -> str:
        """Return the jump after an action; a missing hit or miss target is that of the action."""
        on_hit = node.hit if node.hit is not None else node.by_action[action]
        on_miss = node.miss if node.miss is not None else node.by_action[action]
        if on_hit == on_miss:
            return self._go(on_hit, bounds)
        return f"if (hit) {self._go(on_hit, bounds)} else {self._go(on_miss, bounds)}"
