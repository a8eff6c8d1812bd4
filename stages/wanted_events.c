#include "stages/wanted_events.h"

#include <string.h>

#include "engine/base/nearest.h"
#include "stages/wanted.h"

/* Texts of another node may be missing. */
static bool has(const mr_strings *list, const char *text) {
    for (size_t i = 0; text && i < list->count; i++)
        if (strcmp(list->item[i], text) == 0)
            return true;
    return false;
}

int mr_wanted_events_check(mr_negotiation *n, const char *option, const mr_strings *events) {
    static const char *const names[] = {"enter", "leave", "cross", "dwell", "count", "crowd", NULL};
    char hint[128];
    for (size_t i = 0; i < events->count; i++) {
        mr_nearest nearest = {.wanted = events->item[i]};
        size_t k = 0;
        while (names[k] && strcmp(names[k], events->item[i]) != 0)
            mr_nearest_offer(&nearest, names[k++]);
        const char *near = nearest.best ? mr_nearest_hint(&nearest, hint, sizeof hint, NULL) : NULL;
        if (!names[k])
            return mr_refuse(n, option, "there is no event \"%s\": they are enter, leave, cross, dwell, count and "
                             "crowd%s%s", events->item[i], near ? "; " : "", near ? near : "");
    }
    return MR_OK;
}

bool mr_wanted_event(const mr_wanted_events *wanted, const mr_zone_event *event) {
    return (!wanted->events || !wanted->events->count || has(wanted->events, event->event)) &&
           (!wanted->zones || !wanted->zones->count || has(wanted->zones, event->zone)) &&
           (!wanted->classes || mr_wanted_class(wanted->classes, event->index, event->label));
}

const mr_zone_event *mr_wanted_events_find(const mr_wanted_events *wanted, const mr_frame *frame, const char **stage) {
    const mr_result_kind *kind = mr_kind_events();
    for (const mr_result *one = mr_frame_result(frame, kind, NULL); one; one = mr_result_find(one->next, kind, NULL))
        for (size_t i = 0; i < one->count; i++) {
            const mr_zone_event *event = (const mr_zone_event *)one->data + i;
            *stage = one->stage;
            if (mr_wanted_event(wanted, event))
                return event;
        }
    return NULL;
}
