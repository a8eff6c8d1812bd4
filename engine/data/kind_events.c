#include "millrace/events.h"

#include <stddef.h>

#include "engine/data/kinds.h"

#define FIELD(field) .name = #field, .offset = offsetof(mr_zone_event, field)
static const mr_field fields[] = {
    {FIELD(event), .type = MR_FIELD_TEXT, .help = "enter, leave, cross, dwell, count or crowd"},
    {FIELD(zone), .type = MR_FIELD_TEXT, .help = "name of the area or line"},
    {FIELD(direction), .type = MR_FIELD_TEXT, .sparse = true, .help = "of a crossing: in or out"},
    {FIELD(track), .type = MR_FIELD_ID, .sparse = true, .help = "number of the object's track"},
    {FIELD(index), .type = MR_FIELD_I32, .help = "number of the object's class; -1: none"},
    {FIELD(label), .type = MR_FIELD_TEXT, .sparse = true, .help = "the class's name, if there are labels",
     .column = "class"},
    {.name = "time", .offset = offsetof(mr_zone_event, time_ns), .type = MR_FIELD_TIME, .unit = "s",
     .help = "presentation time at which it happened"},
    {.name = "dwell", .offset = offsetof(mr_zone_event, dwell_ns), .type = MR_FIELD_TIME, .sparse = true, .unit = "s",
     .help = "how long the object was in the area"},
    {FIELD(count), .type = MR_FIELD_I64,
     .help = "areas: objects inside now; lines: crossings in this direction so far"},
    {FIELD(total), .type = MR_FIELD_I64, .help = "areas: entries so far; lines: all crossings so far"},
    {FIELD(speed), .type = MR_FIELD_F32, .sparse = true, .unit = "m/s", .help = "of the object; 0: not known"},
    {FIELD(gone), .type = MR_FIELD_BOOL, .sparse = true, .help = "the object was lost in the area, or its epoch ended"},
    {0},
};
#undef FIELD

static const mr_result_kind kind = {
    .name = "events",
    .help = "what happened in areas and on lines",
    .fields = fields,
    .element_bytes = sizeof(mr_zone_event),
    .rare = true,
};

const mr_result_kind *mr_kind_events(void) {
    return &kind;
}
