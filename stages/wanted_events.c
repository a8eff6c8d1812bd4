#include "stages/wanted_events.h"

#include <stdio.h>
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

/* ---- planning: zones --------------------------------------------------------------------------------------------- */

static bool is_cross(const char *event) {
    return strcmp(event, "cross") == 0;
}

static bool has_any(const mr_strings *wanted, const mr_shapes *shapes) {
    for (size_t i = 0; i < shapes->count; i++)
        if (!wanted->count || has(wanted, shapes->name[i]))
            return true;
    return false;
}

/* Whether a zone in the list, which may be empty for all, reports an event; NULL: any event. */
static bool may_happen(mr_negotiation *n, const char *event, const mr_strings *zones) {
    const mr_planned_zones *one;
    bool known;
    for (size_t i = 0; (one = mr_planned_zones_at(n, 0, i, &known)); i++)
        if (((!event || !is_cross(event)) && has_any(zones, &one->areas)) ||
            ((!event || is_cross(event)) && one->crossings && has_any(zones, &one->lines)))
            return true;
    return false;
}

/* Whether a stage watches it. Else *hint is a similar name, or some names that there are. */
static bool is_watched(mr_negotiation *n, const char *zone, char *hint, size_t bytes) {
    const mr_planned_zones *one;
    mr_nearest nearest = {.wanted = zone};
    const char *first = NULL;
    bool known, found = false;
    for (size_t i = 0; (one = mr_planned_zones_at(n, 0, i, &known)); i++)
        for (size_t k = 0; k < one->areas.count + one->lines.count; k++) {
            const char *name = k < one->areas.count ? one->areas.name[k] : one->lines.name[k - one->areas.count];
            first = first ? first : name;
            found |= strcmp(name, zone) == 0;
            mr_nearest_offer(&nearest, name);
        }
    if (!mr_nearest_hint(&nearest, hint, bytes, NULL))
        snprintf(hint, bytes, "it has \"%.80s\"", first);
    return found;
}

static int check_names(mr_negotiation *n, const mr_strings *zones, const char *nothing, const char *none) {
    const char *from;
    char hint[128];
    bool known, any = false;
    from = mr_planned_zones_at(n, 0, 0, &known)->from;
    for (size_t i = 0; i < zones->count; i++)
        any |= is_watched(n, zones->item[i], hint, sizeof hint);
    for (size_t i = 0; i < zones->count; i++) {
        if (is_watched(n, zones->item[i], hint, sizeof hint))
            continue;
        if (!any)
            return mr_refuse(n, "zones", "%s has no area or line \"%s\", so %s; %s", from, zones->item[i], nothing,
                             hint);
        mr_warn(n, "zones", hint, "%s has no area or line \"%s\", which then %s", from, zones->item[i], none);
    }
    return MR_OK;
}

/* Why an event does not happen in the zones. */
static const char *reason(mr_negotiation *n, const char *event, const mr_strings *zones, char *text, size_t bytes) {
    const char *shape = is_cross(event) ? "line" : "area", *other = is_cross(event) ? "an area" : "a line";
    const mr_planned_zones *one;
    bool known, silent = false;
    for (size_t i = 0; is_cross(event) && (one = mr_planned_zones_at(n, 0, i, &known)); i++)
        silent |= has_any(zones, &one->lines);
    one = mr_planned_zones_at(n, 0, 0, &known);
    if (silent)
        snprintf(text, bytes, "%s does not report \"cross\" (its events)", one->from);
    else if (zones->count)
        snprintf(text, bytes, "\"%s\" comes from %ss, and \"%.80s\" is %s", event, shape, zones->item[0], other);
    else
        snprintf(text, bytes, "\"%s\" comes from %ss, and %s has none", event, shape, one->from);
    return text;
}

int mr_wanted_zones_check(mr_negotiation *n, const mr_wanted_events *wanted, const char *nothing, const char *none) {
    const mr_strings *events = wanted->events;
    char text[256];
    bool known, any = false;
    if (!mr_planned_zones_at(n, 0, 0, &known) || !known)
        return MR_OK;
    int status = check_names(n, wanted->zones, nothing, none);
    for (size_t i = 0; i < events->count; i++)
        any |= may_happen(n, events->item[i], wanted->zones);
    for (size_t i = 0; i < events->count && !status; i++) {
        if (may_happen(n, events->item[i], wanted->zones))
            continue;
        reason(n, events->item[i], wanted->zones, text, sizeof text);
        if (!any)
            return mr_refuse(n, "events", "%s, so %s", text, nothing);
        mr_warn(n, "events", "leave it out", "%s, so it %s", text, none);
    }
    if (!status && !events->count && !may_happen(n, NULL, wanted->zones))
        return mr_refuse(n, "zones", "%s, so %s", reason(n, "cross", wanted->zones, text, sizeof text), nothing);
    return status;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

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
