/* filter: passes a frame if its results, or its newest objects, name a wanted class; with `not`, if they name none.
 * With `events` or `zones` it passes frames with such an event. */
#include <stddef.h>

#include "engine/base/memory.h"
#include "stages/list.h"
#include "stages/wanted.h"
#include "stages/wanted_events.h"

typedef struct filter_options {
    mr_strings classes, events, zones;
    double score;
    int64_t for_ns, again_ns;
    bool not;
} filter_options;

/* State per wanted class; with `not`, with events, or without labels, there is one for all. */
typedef struct sight {
    int64_t since_ns; /* the first consecutive frame that has it; MR_NO_TIME: none */
    int64_t gone_ns;  /* the first frame that lacks it; likewise */
    int64_t last_ns;  /* the last frame passed; likewise */
} sight;

/* Of one source. */
typedef struct filter_state {
    sight *sights;
    size_t count;
    uint32_t epoch;
    int64_t now_ns; /* of the last frame */
} filter_state;

static const char *const again_words[] = {"gone", NULL};

#define FIELD(name) offsetof(filter_options, name)
static const mr_option options[] = {
    {.name = "classes", .kind = MR_OPTION_STRINGS, .offset = FIELD(classes),
     .help = "a frame passes if it, or an object in it, has one of these labels; by default any label. With events or "
             "zones: the event's object has it"},
    {.name = "events", .kind = MR_OPTION_STRINGS, .offset = FIELD(events), .example = "[dwell]",
     .help = "instead, a frame passes if zones reports one of these events: enter, leave, cross, dwell, count, crowd"},
    {.name = "zones", .kind = MR_OPTION_STRINGS, .offset = FIELD(zones), .example = "[door]",
     .help = "instead, a frame passes if it has an event of one of these zones"},
    {.name = "score", .kind = MR_OPTION_DOUBLE, .offset = FIELD(score), .fallback = "0.5", .min = -1e9, .max = 1e9,
     .help = "lowest score of a class or object that counts"},
    {.name = "for", .kind = MR_OPTION_DURATION, .offset = FIELD(for_ns), .fallback = "0s", .max = 86400e9,
     .help = "how long each frame must have had the class before one passes; 0s: the first one passes"},
    {.name = "again", .kind = MR_OPTION_DURATION, .offset = FIELD(again_ns), .fallback = "0s", .max = 86400e9 * 365,
     .choices = again_words,
     .help = "least time between two frames that the same class lets through; 0s: every frame passes; gone: one "
             "passes, and the next one after frames have lacked the class for as long as `for` says"},
    {.name = "not", .kind = MR_OPTION_BOOL, .offset = FIELD(not), .fallback = "false",
     .help = "lets through frames that have none of the classes, for `for`, instead"},
    MR_OPTIONS_END};

static mr_wanted wanted_of(const filter_options *given) {
    return (mr_wanted){.classes = &given->classes, .score = given->score};
}

static bool takes_events(const filter_options *given) {
    return given->events.count || given->zones.count;
}

/* An event has no score, and no duration but its dwell. */
static int check_events(mr_negotiation *n, const filter_options *given) {
    if (!mr_planned_may_have(n, 0, mr_kind_events()))
        return mr_refuse(n, given->events.count ? "events" : "zones", "no frame that comes here has events, so no "
                         "frame would ever pass: name a stage after zones as its input");
    if (given->for_ns || given->not)
        return mr_refuse(n, given->not ? "not" : "for", "%s counts frames with classes, and events have no duration: "
                         "leave it out (zones has dwell)", given->not ? "not" : "for");
    if (given->again_ns < 0)
        return mr_refuse(n, "again", "again: gone needs classes: with events, write a time");
    const mr_wanted_events wanted = {&given->events, &given->zones, &given->classes};
    int status = mr_wanted_events_check(n, "events", &given->events);
    if (!status)
        status = mr_wanted_zones_check(n, &wanted, "no frame would ever pass", "lets no frame through");
    return status ? status : mr_wanted_objects_check(n, &given->classes, "no frame would ever pass",
                                                     "lets no frame through");
}

static int negotiate(mr_negotiation *n) {
    const filter_options *given = n->options;
    const mr_wanted wanted = wanted_of(given);
    n->outputs[0].follows = n->outputs[0].shares = 0;
    if (takes_events(given))
        return check_events(n, given);
    if (!mr_wanted_may_come(&n->inputs[0]))
        return mr_refuse(n, NULL, "no frame that comes here has classes or objects: name a stage after classify or "
                         "detect as its input");
    return mr_wanted_check(n, &wanted, given->not ? "every frame would pass" : "no frame would ever pass",
                           given->not ? "stops no frame" : "lets no frame through");
}

static int open_stage(mr_stage *self) {
    const filter_options *given = self->options;
    filter_state *state = self->state;
    state->count = given->not || takes_events(given) || !given->classes.count ? 1 : given->classes.count;
    state->sights = mr_calloc(state->count, sizeof *state->sights);
    state->now_ns = MR_NO_TIME;
    return state->sights ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for %zu classes", state->count);
}

static void close_stage(mr_stage *self) {
    filter_state *state = self->state;
    mr_free(state->sights);
}

/* Times restart with a new connection. */
static void keep_up(filter_state *state, const mr_frame *frame) {
    const int64_t now_ns = mr_frame_time_ns(frame);
    if (state->now_ns == MR_NO_TIME || state->epoch != frame->identity.epoch || now_ns < state->now_ns)
        for (size_t i = 0; i < state->count; i++)
            state->sights[i] = (sight){MR_NO_TIME, MR_NO_TIME, MR_NO_TIME};
    state->epoch = frame->identity.epoch;
    state->now_ns = now_ns;
}

/* Records whether this frame has the class; returns whether to pass the frame. */
static bool look(const filter_options *given, sight *of, bool seen, int64_t now_ns) {
    const bool once = given->again_ns < 0;
    int64_t *begin_ns = seen ? &of->since_ns : &of->gone_ns;
    *(seen ? &of->gone_ns : &of->since_ns) = MR_NO_TIME;
    if (*begin_ns == MR_NO_TIME)
        *begin_ns = now_ns;
    if (!seen) {
        if (once && now_ns - of->gone_ns >= given->for_ns)
            of->last_ns = MR_NO_TIME;
        return false;
    }
    const bool due = of->last_ns == MR_NO_TIME || (!once && now_ns - of->last_ns >= given->again_ns);
    if (!due || now_ns - of->since_ns < given->for_ns)
        return false;
    of->last_ns = now_ns;
    return true;
}

static bool has_event(const filter_options *given, const mr_frame *frame) {
    const mr_wanted_events wanted = {&given->events, &given->zones, &given->classes};
    const char *stage;
    return mr_wanted_events_find(&wanted, frame, &stage) != NULL;
}

static bool passes(const filter_options *given, filter_state *state, const mr_frame *frame) {
    const mr_wanted wanted = wanted_of(given);
    mr_sighting found;
    bool any = false;
    keep_up(state, frame);
    if (takes_events(given))
        return look(given, state->sights, has_event(given, frame), state->now_ns);
    if (given->not)
        return look(given, state->sights, !mr_wanted_find(&wanted, frame, -1, &found), state->now_ns);
    for (size_t i = 0; i < state->count; i++)
        any |= look(given, &state->sights[i], mr_wanted_find(&wanted, frame, (int)i, &found), state->now_ns);
    return any;
}

static int process(mr_stage *self, mr_io *io) {
    const mr_frame *frame = mr_io_input(io);
    /* The picture for an absent camera shows nothing. */
    if (!(frame->flags & MR_FRAME_AWAY) && passes(self->options, self->state, frame))
        return mr_io_forward(io, 0);
    mr_io_absorb(io, frame, "filtered");
    return MR_DONE;
}

static const mr_port inputs[] = {{.name = "in", .help = "frames with classes, objects or events"}, {0}};
static const mr_port outputs[] = {{.name = "out", .help = "those that pass, unchanged"}, {0}};

const mr_stage_type mr_filter_stage = {
    .name = "filter",
    .summary = "lets frames through by their classes or events; the others are absorbed as \"filtered\"",
    .help = "Use it for alarms: one row and one picture when a class appears, instead of one for each frame. A frame "
            "passes if it has a class from `classes` with at least `score`, or an object or an attribute of an object "
            "with that class. `for` and `again` count frame times, for each source and class. With `events` or "
            "`zones` a frame passes if zones reports such an event in it; `again` then counts for each source.",
    .inputs = inputs,
    .outputs = outputs,
    .blind = true,
    .options = options,
    .options_bytes = sizeof(filter_options),
    .state_bytes = sizeof(filter_state),
    .entry = MR_ENTRY_PER_SOURCE,
    .negotiate = negotiate,
    .open = open_stage,
    .process = process,
    .close = close_stage,
};
