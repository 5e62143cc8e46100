"""Actions with their parameters as entries of tables and members of action profiles hold them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from softswitch.codegen.layout import c_type, is_wide
from softswitch.program import Action


def entry_struct(name: str, actions: Sequence[Action]) -> Iterator[str]:
    """Yield a struct that holds one of `actions` and its parameters."""
    yield f"struct {name} {{"
    yield "    uint16_t action; /* position in the list of actions, + 1; 0: none */"
    yield "    union {"
    for position, action in enumerate(actions):
        if action.params:
            fields = " ".join(_member(f"a{i}", p.width) for i, p in enumerate(action.params))
            yield f"        struct {{ {fields} }} d{position};"
    yield "        uint8_t none;"
    yield "    };"
    yield "};"


def _member(name: str, width: int) -> str:
    """Return the struct member of a parameter; one of more than 128 bits is limbs."""
    if is_wide(width):
        return f"uint64_t {name}[{(width + 63) // 64}];"
    return f"{c_type(width)} {name};"


def encoder(name: str, struct: str, actions: Sequence[Action]) -> Iterator[str]:
    """Yield a function that fills such a struct from the words of the control plane."""
    yield f"static void {name}(void *entry, uint32_t action, const uint64_t *w)"
    yield "{"
    yield f"    struct {struct} *e = entry;"
    yield "    (void)w;"
    yield "    memset(e, 0, sizeof *e);"
    yield "    e->action = (uint16_t)(action + 1);"
    yield "    switch (action) {"
    for position, action in enumerate(actions):
        if not action.params:
            continue
        yield f"    case {position}:"
        word = 0
        for i, param in enumerate(action.params):
            target = f"e->d{position}.a{i}"
            if param.width <= 64:
                yield f"        {target} = ({c_type(param.width)})w[{word}];"
            elif is_wide(param.width):
                yield f"        memcpy({target}, w + {word}, sizeof {target});"
            else:
                yield f"        {target} = SS_U128(w[{word + 1}], w[{word}]);"
            word += (param.width + 63) // 64
        yield "        break;"
    yield "    }"
    yield "}"
