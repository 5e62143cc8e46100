/* Action profiles as the control plane sees them: members and groups of them.
 *
 * An entry of a table with an action profile holds a reference: the handle of a member, or that of
 * a group with SS_GROUP_REF set. A group lists its members, one place per unit of weight. */
#ifndef SS_PROFILES_H
#define SS_PROFILES_H

#include "io.h"

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

/* Makes room for the handles up to `handle` in an array of elements of `size` bytes. */
static bool ss_handles_reserve(void **array, uint64_t *room, uint64_t size, uint32_t handle)
{
    uint64_t more = *room ? *room : 16;
    if (handle < *room)
        return true;
    while (more <= handle)
        more *= 2;
    uint8_t *grown = realloc(*array, more * size);
    if (!grown)
        return false;
    memset(grown + *room * size, 0, (more - *room) * size);
    *array = grown;
    *room = more;
    return true;
}

/* Writes a member: adds it or changes its action. */
int ss_member_set(struct ss_ctx *c, uint32_t profile, uint32_t handle, uint32_t action,
                  const uint64_t *params)
{
    const struct ss_profile_info *info = &ss_profile_infos[profile];
    struct ss_profile *f = &c->profiles[profile];
    ss_lock(c);
    void *members = f->members;
    bool ok = ss_handles_reserve(&members, &f->room, info->stride, handle);
    f->members = members;
    if (ok)
        info->encode(f->members + (uint64_t)handle * info->stride, action, params);
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
    void *groups = f->groups;
    bool ok = ss_handles_reserve(&groups, &f->group_room, sizeof *f->groups, handle);
    f->groups = groups;
    if (ok) {
        struct ss_selection *old = f->groups[handle];
        f->groups[handle] = s;
        s = old;
    }
    ss_unlock(c);
    free(s);
    return ok ? 0 : -ENOMEM;
}

#endif
