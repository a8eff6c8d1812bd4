/* Joins that can never complete, or not as they should.
 *
 * A join emits one frame from each input, all with one identity: the same source, epoch and number. So at least one
 * source must reach every input. Frames must be numbered alike from there on, and arrive in number order. Frames of
 * objects (crop) are numbered within the frame that has them: only a type that gathers joins them with it. */
#include "engine/planner/graph/lint_joins.h"

#include <stdio.h>
#include <string.h>

#include "engine/planner/graph/builder.h"
#include "engine/planner/graph/gathering.h"
#include "engine/planner/graph/links.h"
#include "millrace/status.h"

/* How frames on a link are numbered: packets in decoding order by their source, pictures and what is made from them in
 * presentation order, and frames of objects within their frame. For results without content, which could belong to
 * either, it is not known. */
typedef enum numbering { UNKNOWN, DECODING, PRESENTATION, OBJECTS } numbering;

/* One input of a join: the links into one port. */
typedef struct port {
    const mr_plan_link *link; /* the first one */
    size_t links;
    size_t sources;           /* how many reach it */
    numbering numbers;
} port;

typedef struct joins {
    mr_plan_builder *b;
    numbering *numbers;   /* each vertex's output */
    int *twice;           /* by vertex: a source whose frames reach it by two ways, and out of order; -1: none */
    int *seen;            /* by source: when it was last counted, by `stamp` */
    int *reached;         /* by source: how many of the present join's ports it reaches */
    int stamp;
} joins;

static mr_payload payload_of(const mr_plan_builder *b, const mr_plan_link *link) {
    return b->plan->vertices[link->from].outputs[link->from_port].set.payload;
}

static const mr_plan_vertex *from_of(const joins *j, const mr_plan_link *link) {
    return &j->b->plan->vertices[link->from];
}

static const mr_plan_link *link_of(const joins *j, int v, int i) {
    return &j->b->link[j->b->in.item[j->b->in.start[v] + i]];
}

static int link_count(const joins *j, int v) {
    return j->b->in.start[v + 1] - j->b->in.start[v];
}

/* ---- going through the graph ----------------------------------------------------------------------------------- */

static numbering numbering_of(const joins *j, const mr_plan_link *link) {
    if (j->numbers[link->from] == OBJECTS)
        return OBJECTS;
    switch (j->b->unknown[link->from] ? MR_PAYLOAD_ANY : payload_of(j->b, link)) {
    case MR_PAYLOAD_PACKET:
        return DECODING;
    case MR_PAYLOAD_PICTURE:
    case MR_PAYLOAD_TENSOR:
        return PRESENTATION;
    default:
        return j->numbers[link->from];
    }
}

static mr_cascade cascade_of(const joins *j, int v) {
    const mr_stage_type *type = j->b->vertex[v]->type;
    return type ? type->cascade : MR_CASCADE_NONE;
}

/* Outputs made from frames in presentation order stay in it, and so do those made from objects. */
static void number(joins *j, int v) {
    const mr_cascade cascade = cascade_of(j, v);
    for (int i = 0; i < link_count(j, v) && j->numbers[v] != OBJECTS; i++) {
        const numbering before = numbering_of(j, link_of(j, v, i));
        if (before == PRESENTATION || before == OBJECTS)
            j->numbers[v] = before;
    }
    if (cascade != MR_CASCADE_NONE)
        j->numbers[v] = cascade == MR_CASCADE_SPLIT ? OBJECTS : PRESENTATION;
}

/* A source whose frames reach one port of `v` over two links, or do so at a vertex before it. */
static int find_twice(joins *j, int v, int to_port) {
    int stamp = ++j->stamp, twice = -1;
    for (int i = 0; twice < 0 && i < link_count(j, v); i++) {
        const mr_plan_link *link = link_of(j, v, i);
        const mr_plan_vertex *from = from_of(j, link);
        if (link->to_port != to_port)
            continue;
        twice = j->twice[link->from];
        for (size_t s = 0; twice < 0 && s < from->source_count; s++) {
            if (j->seen[from->sources[s]] == stamp)
                twice = (int)from->sources[s];
            j->seen[from->sources[s]] = stamp;
        }
    }
    return twice;
}

/* ---- messages -------------------------------------------------------------------------------------------------- */

/* "lobby", "lobby and hall", "lobby, hall and 3 more". */
static const char *list_sources(const joins *j, const mr_plan_link *link, char *text, size_t bytes) {
    const mr_plan_vertex *from = from_of(j, link), *vertices = j->b->plan->vertices;
    const uint32_t *s = from->sources;
    if (from->source_count == 1)
        snprintf(text, bytes, "%s", vertices[s[0]].id);
    else if (from->source_count == 2)
        snprintf(text, bytes, "%s and %s", vertices[s[0]].id, vertices[s[1]].id);
    else
        snprintf(text, bytes, "%s, %s and %zu more", vertices[s[0]].id, vertices[s[1]].id, from->source_count - 2);
    return text;
}

/* Names inputs that no source reaches together: two of them, or the whole join. */
static void refuse_sources(const joins *j, int v, const port *const *ports, int count) {
    char text[1024] = "", sources[256];
    size_t length = 0;
    for (int p = 0; p < count && length < sizeof text; p++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s\"%s\" has frames of %s", p ? ", " : "",
                                   from_of(j, ports[p]->link)->id,
                                   list_sources(j, ports[p]->link, sources, sizeof sources));
    mr_plan_error(j->b, ports[count - 1]->link->place,
                  "join outputs of several stages for one source; `input: [a, b]` merges sources",
                  "stages.%s.join: no source reaches all inputs: %s", j->b->vertex[v]->id, text);
}

static void refuse_numbering(const joins *j, int v, const port *packets, const port *pictures) {
    const mr_plan_builder *b = j->b;
    mr_plan_error(b, packets->link->place, "join stages after the decoder",
                  "stages.%s.join: \"%s\" gives packets, numbered in decoding order, but frames of \"%s\" are numbered "
                  "in presentation order: frames of the same number would not belong together",
                  b->vertex[v]->id, from_of(j, packets->link)->id, from_of(j, pictures->link)->id);
}

/* A link with frames of objects; NULL: there is none. */
static const mr_plan_link *find_objects(const joins *j, int v) {
    for (int i = 0; i < link_count(j, v); i++)
        if (numbering_of(j, link_of(j, v, i)) == OBJECTS)
            return link_of(j, v, i);
    return NULL;
}

/* Whether the stage compares frames with those before: its type does, or its options need an instance a source. */
static bool takes_whole(const mr_plan_builder *b, int v) {
    const mr_stage_type *type = b->vertex[v]->type;
    return type && (type->whole || (type->entry != MR_ENTRY_PER_SOURCE &&
                                    b->plan->vertices[v].calls.entry == MR_ENTRY_PER_SOURCE));
}

static void check_whole(const joins *j, int v) {
    const mr_plan_link *link = find_objects(j, v);
    if (link)
        mr_plan_error(j->b, link->place,
                      "put it before the stage that makes these, or a stage of the type gather between the two: that "
                      "brings what was found back onto the frames, and can let a track's pictures vote",
                      "stages.%s.input: \"%s\" gives frames of objects or tiles, several for each frame of the "
                      "source; %s%s takes whole frames, one after the other", j->b->vertex[v]->id, from_of(j, link)->id,
                      j->b->vertex[v]->type->name, j->b->vertex[v]->type->whole ? "" : " with these options");
}

static void check_split(const joins *j, int v) {
    const mr_plan_link *link = find_objects(j, v);
    if (link)
        mr_plan_error(j->b, link->place, "put a stage of the type gather between the two",
                      "stages.%s.input: \"%s\" gives frames of objects already, and objects of objects have no numbers",
                      j->b->vertex[v]->id, from_of(j, link)->id);
}

static const char *port_name(const joins *j, int v, int which) {
    return j->b->vertex[v]->type->inputs[which].name;
}

/* The frames pass a stage that gathers the same objects before: it gives a frame only when it has all of them, and they
 * must wait here meanwhile. A frame can have any number. */
static void check_gathered_before(const joins *j, int v, const port *ports) {
    const mr_plan_builder *b = j->b;
    bool *frames = mr_arena_array(b->arena, (size_t)b->count, sizeof *frames);
    bool *split = mr_arena_array(b->arena, (size_t)b->count, sizeof *split);
    if (!frames || !split)
        return;
    mr_plan_mark_to(b, v, MR_PLAN_FRAMES, frames);
    mr_plan_mark_splits(b, v, split);
    for (int at = 0; at < v; at++)
        if (frames[at] && split[at]) {
            mr_plan_error(b, ports[0].link->place,
                          "bring the objects' results together with a stage of the type join, and gather once; or put "
                          "another crop after that stage",
                          "stages.%s.join.%s: frames of \"%s\" come when all their objects of \"%s\" are gathered, and "
                          "the objects would wait here for the frames: without room for them the run would stall",
                          b->vertex[v]->id, port_name(j, v, 0), from_of(j, ports[0].link)->id, b->vertex[at]->id);
            return;
        }
}

/* Frames on the first input, frames of objects on the second. */
static void check_gather(const joins *j, int v, const port *ports) {
    const mr_plan_builder *b = j->b;
    const char *id = b->vertex[v]->id;
    if (ports[0].numbers == OBJECTS)
        mr_plan_error(b, ports[0].link->place, "name the stage that gives crop its frames, or one after it",
                      "stages.%s.join.%s: \"%s\" gives frames of objects, not the frames that have them", id,
                      port_name(j, v, 0), from_of(j, ports[0].link)->id);
    else if (ports[1].numbers != OBJECTS)
        mr_plan_error(b, ports[1].link->place, "name a stage after one of the type crop, which gives a frame for each "
                      "object", "stages.%s.join.%s: \"%s\" gives whole frames, not frames of objects", id,
                      port_name(j, v, 1), from_of(j, ports[1].link)->id);
    else
        check_gathered_before(j, v, ports);
}

static void refuse_mixture(const joins *j, int v, const port *objects, const port *frames) {
    mr_plan_error(j->b, objects->link->place, "a stage of the type gather puts what was found onto the frames",
                  "stages.%s.join: \"%s\" gives frames of objects, and \"%s\" whole frames: none have one number",
                  j->b->vertex[v]->id, from_of(j, objects->link)->id, from_of(j, frames->link)->id);
}

static void refuse_twice(const joins *j, int v, const port *at, int source) {
    mr_plan_error(j->b, at->link->place, "give each path an input of its own, or merge after the join",
                  "stages.%s.join: frames of %s reach \"%s\" on several paths that are merged before it, so that their "
                  "order is lost, which a join needs",
                  j->b->vertex[v]->id, j->b->plan->vertices[source].id, from_of(j, at->link)->id);
}

/* What comes of frames that do not come to a port. */
static const char *fate_without(const joins *j, int v, int missed) {
    if (cascade_of(j, v) != MR_CASCADE_GATHER)
        return "none is joined";
    return missed == MR_PLAN_OBJECTS ? "nothing is put onto them" : "results for their objects are put onto nothing";
}

/* `count` sources, `source` first among them, miss an input. */
static void warn_of_stray(const joins *j, int v, uint32_t source, size_t count, const port *ports, int missed) {
    char hint[160], more[48] = "";
    const char *id = j->b->plan->vertices[source].id;
    const mr_plan_link *without = ports[missed].link;
    snprintf(hint, sizeof hint, "connect %.64s to every input of the join, or to none", id);
    if (count > 1)
        snprintf(more, sizeof more, " (and of %zu other sources)", count - 1);
    mr_diagnose(j->b->diagnostics, MR_SEVERITY_WARNING, MR_OK, without->place, hint,
                "stages.%s.join: frames of %s%s reach some of its inputs, but not all: \"%s\" has none of them, so "
                "that %s", j->b->vertex[v]->id, id, more, from_of(j, without)->id, fate_without(j, v, missed));
}

/* ---- one join -------------------------------------------------------------------------------------------------- */

/* Adds a link to its port, and marks this port as reached for each source. */
static void count_link(joins *j, port *at, const mr_plan_link *link, int stamp) {
    const mr_plan_vertex *from = from_of(j, link);
    if (!at->links++)
        at->link = link;
    numbering numbers = numbering_of(j, link);
    at->numbers = at->links == 1 || at->numbers == numbers ? numbers : UNKNOWN;
    for (size_t s = 0; s < from->source_count; s++) {
        uint32_t source = from->sources[s];
        if (j->seen[source] == stamp)
            continue;
        j->seen[source] = stamp;
        j->reached[source]++;
        at->sources++;
    }
}

static void fill_port(joins *j, int v, int to_port, port *at) {
    int stamp = ++j->stamp;
    *at = (port){0};
    for (int i = 0; i < link_count(j, v); i++)
        if (link_of(j, v, i)->to_port == to_port)
            count_link(j, at, link_of(j, v, i), stamp);
}

/* Whether a source that was counted under `stamp` reaches the port; MR_SOURCE_NONE: any. */
static bool comes_over(const joins *j, int v, int to_port, int stamp, uint32_t source) {
    for (int i = 0; i < link_count(j, v); i++) {
        const mr_plan_link *link = link_of(j, v, i);
        const mr_plan_vertex *from = from_of(j, link);
        for (size_t s = 0; link->to_port == to_port && s < from->source_count; s++)
            if (source == MR_SOURCE_NONE ? j->seen[from->sources[s]] == stamp : from->sources[s] == source)
                return true;
    }
    return false;
}

/* No source reaches all ports: names two that no source reaches both of, or else all. */
static void refuse_apart(joins *j, int v, const port *ports, int count) {
    const port *all[MR_SPEC_MAX_PORTS];
    for (int one = 0; one < count; one++) {
        port again;
        int stamp = j->stamp + 1;
        fill_port(j, v, one, &again);
        all[one] = &ports[one];
        for (int other = one + 1; other < count; other++)
            if (!comes_over(j, v, other, stamp, MR_SOURCE_NONE)) {
                refuse_sources(j, v, (const port *[]){&ports[one], &ports[other]}, 2);
                return;
            }
    }
    refuse_sources(j, v, all, count);
}

/* False if no source reaches all ports. */
static bool check_sources(joins *j, int v, const port *ports, int count) {
    const mr_plan_vertex *vertex = &j->b->plan->vertices[v];
    uint32_t stray = MR_SOURCE_NONE;
    size_t common = 0;
    for (size_t s = 0; s < vertex->source_count; s++) {
        bool everywhere = j->reached[vertex->sources[s]] == count;
        common += everywhere;
        if (!everywhere && stray == MR_SOURCE_NONE)
            stray = vertex->sources[s];
    }
    if (common == 0) {
        refuse_apart(j, v, ports, count);
        return false;
    }
    for (int p = 0; stray != MR_SOURCE_NONE && p < count; p++)
        if (!comes_over(j, v, p, 0, stray)) {
            warn_of_stray(j, v, stray, vertex->source_count - common, ports, p);
            break;
        }
    return true;
}

static void check_numbering(const joins *j, int v, const port *ports, int count) {
    const port *packets = NULL, *pictures = NULL, *objects = NULL, *frames = NULL;
    for (int p = 0; p < count; p++) {
        *(ports[p].numbers == OBJECTS ? &objects : &frames) = &ports[p];
        if (ports[p].numbers == DECODING && !packets)
            packets = &ports[p];
        if (ports[p].numbers == PRESENTATION && !pictures)
            pictures = &ports[p];
    }
    if (cascade_of(j, v) == MR_CASCADE_GATHER)
        check_gather(j, v, ports);
    else if (objects && frames)
        refuse_mixture(j, v, objects, frames);
    else if (packets && pictures)
        refuse_numbering(j, v, packets, pictures);
}

static void check_order(joins *j, int v, const port *ports, int count) {
    for (int p = 0; p < count; p++) {
        int twice = find_twice(j, v, p);
        if (twice >= 0 && j->reached[twice] == count)
            refuse_twice(j, v, &ports[p], twice);
    }
}

static int check_join(joins *j, int v) {
    const mr_plan_vertex *vertex = &j->b->plan->vertices[v];
    int count = (int)vertex->input_count;
    port *ports = mr_arena_array(j->b->arena, vertex->input_count, sizeof *ports);
    if (!ports)
        return MR_ERROR_MEMORY;
    memset(j->reached, 0, j->b->spec->source_count * sizeof *j->reached);
    for (int p = 0; p < count; p++) {
        fill_port(j, v, p, &ports[p]);
        /* An earlier stage's input was refused. */
        if (!ports[p].sources || !from_of(j, ports[p].link)->source_count)
            return MR_OK;
    }
    if (check_sources(j, v, ports, count)) {
        check_numbering(j, v, ports, count);
        check_order(j, v, ports, count);
    }
    return MR_OK;
}

int mr_lint_joins(mr_plan_builder *b) {
    joins j = {.b = b};
    j.numbers = mr_arena_array(b->arena, (size_t)b->count, sizeof *j.numbers);
    j.twice = mr_arena_array(b->arena, (size_t)b->count, sizeof *j.twice);
    j.seen = mr_arena_array(b->arena, b->spec->source_count, sizeof *j.seen);
    j.reached = mr_arena_array(b->arena, b->spec->source_count, sizeof *j.reached);
    if (!j.numbers || !j.twice || !j.seen || !j.reached)
        return MR_ERROR_MEMORY;
    for (int v = 0; v < b->count; v++) {
        bool joining = b->plan->vertices[v].input_count > 1;
        number(&j, v);
        j.twice[v] = joining ? -1 : find_twice(&j, v, 0);
        if (cascade_of(&j, v) == MR_CASCADE_SPLIT)
            check_split(&j, v);
        if (takes_whole(b, v))
            check_whole(&j, v);
        if (joining && b->vertex[v]->type && check_join(&j, v))
            return MR_ERROR_MEMORY;
    }
    return MR_OK;
}
