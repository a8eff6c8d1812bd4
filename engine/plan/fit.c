/* Whether formats fit, and formats in words. */
#include <stdio.h>

#include "engine/plan/builder.h"

/* ---- what ports take ------------------------------------------------------------------------------------------ */

bool mr_port_accepts_anything(const mr_port *port) {
    return !port->accepts || port->accepts[0].payload == MR_PAYLOAD_ANY;
}

bool mr_port_accepts(const mr_port *port, const mr_format_set *set, mr_format_set *met) {
    mr_format_set common, only = *set;
    int fitting = 0;
    for (const mr_format_set *one = port->accepts; !mr_port_accepts_anything(port) && one->payload; one++)
        if (mr_format_set_meet(set, one, &common)) {
            only = common;
            fitting++;
        }
    /* Where several sets fit, nothing more is known than before. */
    if (met)
        *met = fitting == 1 ? only : *set;
    return fitting > 0 || mr_port_accepts_anything(port);
}

static bool members_exceed(uint32_t come, uint32_t taken) {
    return come && taken && (come & ~taken);
}

static bool bounds_exceed(mr_bounds come, mr_bounds taken) {
    return come.max && taken.max && (come.min < taken.min || come.max > taken.max);
}

bool mr_format_set_exceeds(const mr_format_set *comes, const mr_format_set *taken) {
    bool exceeds = members_exceed(comes->pixels, taken->pixels) || bounds_exceed(comes->width, taken->width) ||
                   bounds_exceed(comes->height, taken->height) || members_exceed(comes->dtypes, taken->dtypes) ||
                   members_exceed(comes->layouts, taken->layouts);
    for (int i = 0; comes->rank == taken->rank && i < comes->rank; i++)
        exceeds = exceeds || bounds_exceed(comes->dims[i], taken->dims[i]);
    return exceeds;
}

/* ---- in words -------------------------------------------------------------------------------------------------- */

static bool says_only_payload(const mr_format_set *set) {
    return !set->codec && !set->pixels && !set->width.max && !set->height.max && !set->dtypes && !set->layouts &&
           !set->rank;
}

const char *mr_plan_describe(const mr_format_set *set, char *text, size_t bytes) {
    static const char *const plural[] = {[MR_PAYLOAD_ANY] = "anything",
                                         [MR_PAYLOAD_PACKET] = "packets",
                                         [MR_PAYLOAD_PICTURE] = "pictures",
                                         [MR_PAYLOAD_TENSOR] = "tensors",
                                         [MR_PAYLOAD_RESULTS] = "results without content"};
    if (!says_only_payload(set))
        return mr_format_set_print(set, text, bytes);
    snprintf(text, bytes, "%s", plural[set->payload]);
    return text;
}
