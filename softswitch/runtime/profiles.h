/* Action profiles as the control plane sees them: members and groups of them.
 *
 * An entry of a table with an action profile holds a reference: the handle of a member, or that of
 * a group with SS_GROUP_REF set. A group lists its members, one place per unit of weight. */
#ifndef SS_PROFILES_H
#define SS_PROFILES_H

#include "tables.h"

static void ss_profiles_close(struct ss_ctx *c)
{
    for (uint32_t i = 0; i < SS_PROFILE_COUNT; i++) {
        struct ss_profile *f = &c->profiles[i];
        for (uint64_t g = 0; g < f->group_room; g++)
            free(f->groups[g]);
        free(f->groups);
        free(f->members);
    }
}

/* The number of handles that an array must have room for so that `handle` is one of them. */
static uint64_t ss_room_for(uint64_t room, uint32_t handle)
{
    room = room ? room : 16;
    while (room <= handle)
        room *= 2;
    return room;
}

/* Writes a member: adds it or changes its action. */
int ss_member_set(struct ss_ctx *c, uint32_t profile, uint32_t handle, uint32_t action,
                  const uint64_t *params)
{
    const struct ss_profile_info *info = &ss_profile_infos[profile];
    struct ss_profile *f = &c->profiles[profile];
    ss_lock(c);
    void *grown;
    uint64_t room = ss_room_for(f->room, handle);
    bool ok = room == f->room || SS_GROW(f->members, f->room, room, info->stride);
    if (ok) {
        f->room = room;
        info->encode(f->members + (uint64_t)handle * info->stride, action, params);
    }
    ss_unlock(c);
    return ok ? 0 : -ENOMEM;
}

/* Sets the places of a group, which hold handles of members, or removes it when `set` is 0. */
int ss_selection_set(struct ss_ctx *c, uint32_t profile, uint32_t handle, int set,
                     const uint32_t *members, uint32_t count)
{
    struct ss_profile *f = &c->profiles[profile];
    struct ss_selection *s = NULL;
    if (set) {
        if (!(s = malloc(sizeof *s + count * sizeof s->members[0])))
            return -ENOMEM;
        s->count = count;
        memcpy(s->members, members, count * sizeof s->members[0]);
    }
    ss_lock(c);
    void *grown;
    uint64_t room = ss_room_for(f->group_room, handle);
    bool ok = true;
    for (uint32_t i = 0; i < count; i++)
        ok = ok && members[i] < f->room;
    ok = ok && (room == f->group_room || SS_GROW(f->groups, f->group_room, room, sizeof *f->groups));
    if (ok) {
        f->group_room = room;
        struct ss_selection *old = f->groups[handle];
        f->groups[handle] = s;
        s = old;
    }
    ss_unlock(c);
    free(s);
    return ok ? 0 : -ENOMEM;
}

#endif
