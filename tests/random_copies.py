"""Random programs that repeat themselves: the same work on other fields, registers and tables."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from tests.softswitch_json import ProgramBuilder, assign, call, const, field, op, param

Json = dict[str, Any]
SPEC = field("standard_metadata", "egress_spec")
COPIES = 19
"""Two steps of vectors, and three copies that are left over."""


def random_program(seed: int) -> bytes:
    """A program whose copies do the same random things to fields and state of their own."""
    b = ProgramBuilder()
    widths = {"a": 16, "b": 1, "c": 15, "d": 16}
    b.header("in", [[f"{n}{k}", w, False] for k in range(COPIES) for n, w in widths.items()])
    b.header("tail", [["x", 32, False], ["y", 8, False]])
    local = {"p": 32, "q": 64, "r": 96, "s": 13, "z": 20}
    fields = [[f"{n}{k}", w, n == "z"] for k in range(COPIES) for n, w in local.items()]
    shared = {"sum": 32, "any": 1, "bits": 19, "own": 24, "scale": 8, "all": 12}
    b.header("md", fields + [[n, w, False] for n, w in shared.items()], metadata=True)
    b.stack("out", [["u", 32, False], ["v", 64, False]], COPIES)
    end = {"sum": 32, "bits": 19, "any": 1, "all": 12}
    b.header("end", [[name, width, False] for name, width in end.items()])
    b.deparser = ["in", "tail", *(f"out[{k}]" for k in range(COPIES)), "end"]
    b.state("start", [b.extract("in"), b.extract("tail")])
    width = random.Random(seed).choice([7, 16, 32, 48, 64, 90, 128])
    b.run("scale", [assign(field("md", "scale"), field("tail", "y"))])
    b.run("ones", [assign(field("md", "all"), const(0xFFF))])
    for k in range(COPIES):
        copy = Copy(b, k, random.Random(seed), width)
        copy.add()
    b.run(
        "send",
        [
            call("add_header", header("end")),
            *(assign(field("end", n), field("md", n)) for n in end),
            *(
                assign(field("end", "sum"), op("^", field("end", "sum"), field("md", f"p{k}")))
                for k in range(COPIES)
            ),
            assign(SPEC, const(1)),
        ],
    )
    return b.json()


def header(name: str) -> Json:
    """A header as a primitive's argument."""
    return {"type": "header", "value": name}


def register(name: str) -> Json:
    """A register array as a primitive's argument."""
    return {"type": "register_array", "value": name}


@dataclass
class Copy:
    """Adds copy `k` to a program; random choices are the same for all copies."""

    b: ProgramBuilder
    k: int
    rng: random.Random
    register_width: int

    def mine(self, name: str) -> Json:
        """A field of this copy."""
        return field("in" if name in "abcd" else "md", f"{name}{self.k}")

    def cut(self, value: Json, width: int) -> Json:
        """Keep low bits, as p4c does."""
        return op("&", value, const((1 << width) - 1))

    def number(self, depth: int, *names: str) -> Json:
        """A random number of up to 64 bits."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.2:
            leaves = [
                *(self.mine(n) for n in names),
                field("md", "scale"),
                field("tail", "x"),
                const(rng.getrandbits(rng.choice([4, 32]))),
                const(3 * self.k + 1),
            ]
            return rng.choice(leaves)
        a, c = self.number(depth - 1, *names), self.number(depth - 1, *names)
        kind = rng.choice(["+", "-", "&", "|", "^", "<<", ">>", "?", "<<v", ">>v", "sext", "~"])
        match kind:
            case "<<" | ">>":
                return self.cut(op(kind, a, const(rng.randrange(20))), 40)
            case "<<v" | ">>v":
                return self.cut(op(kind[:2], a, self.cut(c, rng.choice([3, 7]))), 40)
            case "?":
                return op("?", a, c, self.truth(depth - 1, *names))
            case "sext":
                signed = op("two_comp_mod", a, const(rng.choice([8, 16, 33])))
                return self.cut(op(rng.choice(["+", ">>"]), signed, const(rng.randrange(5))), 40)
            case "~":
                return self.cut(op("~", None, a), 40)
        return self.cut(op(kind, a, c), 40)

    def truth(self, depth: int, *names: str) -> Json:
        """A random condition."""
        rng = self.rng
        compare = op(
            rng.choice(["==", "!=", "<", "<=", ">", ">="]),
            self.number(depth, *names),
            self.number(depth, *names),
        )
        if depth <= 0 or rng.random() < 0.5:
            return compare
        if rng.random() < 0.2:
            return op("not", None, compare)
        return op(rng.choice(["and", "or"]), compare, self.truth(depth - 1, *names))

    def add(self) -> None:
        """Append the nodes of the copy."""
        b, k, rng = self.b, self.k, self.rng
        names, b_, size = ["a", "b", "c", "d"], self.mine, rng.choice([16, 100])
        b.registers.append(
            {"name": f"reg{k}", "id": k, "size": size, "bitwidth": self.register_width}
        )
        b.run(f"start{k}", [assign(b_("p"), self.number(3, *names))])
        names.append("p")
        if rng.random() < 0.5:
            b.when(f"choose{k}", op("==", field("md", "scale"), const(rng.randrange(4))))
            b.run(f"chosen{k}", [assign(b_("p"), self.number(2, *names))])
        signed = op("two_comp_mod", self.number(2, *names), const(20))
        b.run(f"signed{k}", [assign(b_("z"), signed)])
        names.append("z")
        b.run(f"own{k}", [assign(field("md", "own"), self.number(2, *names))])
        if rng.random() < 0.8:
            self._table(names)
        b.when(f"some{k}", self.truth(2, *names))
        wide = op("|", op("<<", b_("a"), const(66)), op("<<", self.cut(b_("p"), 32), const(30)))
        b.run(
            f"cells{k}",
            [
                assign(b_("s"), field("md", "own")),
                call("register_read", b_("r"), register(f"reg{k}"), b_("s")),
                assign(b_("q"), self.cut(op(">>", b_("r"), const(rng.randrange(90))), 64)),
                assign(b_("r"), self.cut(op("|", wide, self.cut(b_("r"), 20)), 96)),
                call("register_write", register(f"reg{k}"), b_("s"), b_("r")),
                *self._gathered(names),
            ],
        )
        names.append("q")
        b.when(f"show{k}", self.truth(1, *names))
        shown = header(f"out[{k}]")
        b.run(
            f"out{k}",
            [
                call("add_header", shown),
                assign(field(f"out[{k}]", "u"), self.number(2, *names)),
                assign(field(f"out[{k}]", "v"), b_("q")),
            ],
        )
        if rng.random() < 0.5:
            b.when(f"hide{k}", self.truth(1, *names))
            b.run(f"gone{k}", [call("remove_header", shown)])

    def _gathered(self, names: list[str]) -> list[Json]:
        """What all copies do to fields that they share."""
        keep = (1 << 19) - 1 ^ 1 << self.k
        total = op("+", field("md", "sum"), self.number(1, *names))
        bits = op("|", op("&", field("md", "bits"), const(keep)), const(1 << self.k))
        return [
            assign(field("md", "sum"), self.cut(total, 32)),
            assign(field("md", "bits"), bits),
            assign(field("md", "any"), const(1)),
            assign(field("md", "all"), op("&", field("md", "all"), self.number(1, *names))),
        ]

    def _table(self, names: list[str]) -> None:
        """A table of any kind, whose actions use their parameters."""
        rng, k = self.rng, self.k
        kinds = rng.choice([["exact"], ["exact", "exact"], ["lpm"], ["exact", "lpm"], ["ternary"]])
        choice = [self.mine("c"), self.mine("p"), field("md", "scale")]
        keys = [(kind, target) for kind, target in zip(kinds, rng.sample(choice, 2), strict=False)]
        width = rng.choice([5, 16, 40])
        shifted = op(rng.choice(["<<", ">>"]), self.mine("p"), param(0))
        actions = [
            self.b.action(f"shift{k}", [assign(self.mine("p"), self.cut(shifted, 32))], [8]),
            self.b.action(f"set{k}", [assign(self.mine("p"), param(0))], [width]),
            self.b.action(f"mark{k}", [assign(field("md", "any"), const(1))]),
            self.b.action(f"nothing{k}", []),
        ]
        default = (actions[1], [5]) if rng.random() < 0.5 else None
        self.b.table(f"table{k}", keys, actions, default)
