"""Action profiles: members, and the choice of a member of a group."""

from __future__ import annotations

from collections.abc import Iterator

from softswitch.codegen.calculations import Calculations
from softswitch.codegen.entries import encoder, entry_struct
from softswitch.codegen.layout import Layout
from softswitch.program import ActionProfile


class Profiles:
    """Translates the action profiles of one program."""

    def __init__(self, layout: Layout, calculations: Calculations) -> None:
        self.program = layout.program
        self.calculations = calculations

    def definitions(self) -> Iterator[str]:
        """Yield member structs, encoders, choices and the array of profile descriptions."""
        profiles = list(self.program.action_profiles.values())
        for profile in profiles:
            n = profile.index
            actions = [self.program.actions[a] for a in profile.actions.values()]
            yield from entry_struct(f"ss_member{n}", actions)
            yield from encoder(f"ss_encode_member{n}", f"ss_member{n}", actions)
            yield from self._choice(profile)
        yield "static const struct ss_profile_info ss_profile_infos[] = {"
        for profile in profiles:
            n = profile.index
            yield f"    {{sizeof(struct ss_member{n}), ss_encode_member{n}}},"
        yield "    {0, 0}"
        yield "};"

    def _choice(self, profile: ActionProfile) -> Iterator[str]:
        """Yield the function that follows a reference: a member, NULL for none."""
        struct = f"const struct ss_member{profile.index}"
        yield (
            f"static inline {struct} *ss_member{profile.index}"
            "(const struct ss_ctx *c, const struct ss_phv *p, uint32_t target)"
        )
        yield "{"
        yield "    (void)p;"
        yield f"    const struct ss_profile *f = &c->profiles[{profile.index}];"
        yield "    if (target == SS_NO_MEMBER) return NULL;"
        if profile.selector is not None:
            chosen = self.calculations.call(profile.selector)
            yield "    if (target & SS_GROUP_REF) {"
            yield "        const struct ss_selection *s = f->groups[target & ~SS_GROUP_REF];"
            yield "        if (!s->count) return NULL;"
            yield f"        target = s->members[{chosen} % s->count];"
            yield "    }"
        yield f"    return ({struct} *)f->members + target;"
        yield "}"
