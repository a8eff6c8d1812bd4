/* Pipelines from which a picture could get out that did not pass through a stage that `require` demands, such as blur.
 *
 * Sources give such pictures. A stage of a type that ensures the word stops them. All other stages pass them on, as
 * pictures, packets, or tensors of pixels. The numbers that networks and features make from pictures may get out, and
 * results may. */
#include "engine/planner/graph/lint_required.h"

#include <stdio.h>
#include <string.h>

#include "millrace/status.h"

enum { PATH_TEXT = 512 };

typedef struct search {
    mr_plan_builder *b;
    const char *word;
    bool *open; /* by link: such pictures may come over it */
} search;

static const mr_plan_link *link_in(const search *s, int v, int i) {
    return &s->b->link[s->b->in.item[s->b->in.start[v] + i]];
}

/* The first open link into a vertex, or into one port of it (-1: any). */
static const mr_plan_link *open_in(const search *s, int v, int port) {
    for (int i = 0; i < s->b->in.start[v + 1] - s->b->in.start[v]; i++) {
        const mr_plan_link *link = link_in(s, v, i);
        if (s->open[link - s->b->link] && (port < 0 || link->to_port == port))
            return link;
    }
    return NULL;
}

static const mr_planned_output *output_of(const search *s, const mr_plan_link *link) {
    return &s->b->plan->vertices[link->from].outputs[link->from_port];
}

static bool ensures(const mr_stage_type *type, const char *word) {
    return type->ensures && strcmp(type->ensures, word) == 0;
}

/* Whether an output may have such pictures, or what shows them. */
static bool gives(const search *s, const mr_plan_link *link) {
    const mr_plan_vertex *from = &s->b->plan->vertices[link->from];
    const mr_planned_output *output = output_of(s, link);
    if (s->b->unknown[link->from] || ensures(from->type, s->word) || output->set.payload == MR_PAYLOAD_RESULTS)
        return false;
    if (from->role == MR_ROLE_SOURCE)
        return true;
    if (output->shares < 0 && output->set.payload == MR_PAYLOAD_TENSOR && !from->type->converts)
        return false;
    return open_in(s, link->from, output->shares) != NULL;
}

/* Writes the stages by which such a picture comes over the link: "lobby -> decode". */
static int print_way(const search *s, const mr_plan_link *link, char text[PATH_TEXT]) {
    const mr_plan_vertex *from = &s->b->plan->vertices[link->from];
    const mr_plan_link *before =
        from->role == MR_ROLE_SOURCE ? NULL : open_in(s, link->from, output_of(s, link)->shares);
    const int length = before ? print_way(s, before, text) : 0;
    const int more = snprintf(text + length, (size_t)(PATH_TEXT - length), "%s%s", before ? " -> " : "", from->id);
    return length + more < PATH_TEXT ? length + more : PATH_TEXT - 1;
}

static void refuse(const search *s, const mr_plan_link *link, mr_location place, const char *key) {
    const mr_payload payload = output_of(s, link)->set.payload;
    char way[PATH_TEXT], hint[160];
    const mr_stage_type *const *type = s->b->spec->types;
    print_way(s, link, way);
    while (!ensures(*type, s->word))
        type++;
    snprintf(hint, sizeof hint, "name a stage of type %s, or one after it, as the input", (*type)->name);
    mr_plan_error(s->b, place, hint, "stages.%s.%s: %ss that are not %s could get out here (require): %s -> %s",
                  s->b->vertex[link->to]->id, key, payload ? mr_payload_name(payload) : "frame", s->word, way,
                  s->b->vertex[link->to]->id);
}

/* Frames that kill the processes of another node are kept in files. */
static const mr_yaml *dead_letters(const search *s, const mr_plan_link *link) {
    const mr_plan_vertex *vertices = s->b->plan->vertices;
    const mr_yaml *cut = mr_yaml_get(s->b->vertex[link->to]->node, "cut");
    return vertices[link->from].node != vertices[link->to].node && s->b->vertex[link->to]->common.cut.dead_letters
               ? mr_yaml_get(cut, "dead_letters")
               : NULL;
}

static void check_link(const search *s, const mr_plan_link *link) {
    const mr_plan_vertex *to = &s->b->plan->vertices[link->to];
    const mr_payload payload = output_of(s, link)->set.payload;
    const mr_yaml *letters = dead_letters(s, link);
    if (to->needs.shows & (payload ? MR_IN_SET(payload) : UINT32_MAX))
        refuse(s, link, link->place, s->b->vertex[link->to]->joins ? "join" : "input");
    if (letters)
        refuse(s, link, letters->place, "cut.dead_letters");
}

static void check_word(search *s) {
    const mr_plan_builder *b = s->b;
    memset(s->open, 0, b->link_count * sizeof *s->open);
    for (int v = 0; v < b->count; v++)
        for (int i = 0; i < b->in.start[v + 1] - b->in.start[v]; i++) {
            const mr_plan_link *link = link_in(s, v, i);
            s->open[link - b->link] = gives(s, link);
            if (s->open[link - b->link] && !b->unknown[v])
                check_link(s, link);
        }
}

/* A word that no stage type ensures would refuse every pipeline. */
static bool is_known(const mr_plan_builder *b, const char *word, size_t index) {
    const mr_yaml *all = mr_yaml_get(b->spec->root, "require"), *item = all;
    mr_nearest nearest = {.wanted = word};
    char hint[128];
    for (const mr_stage_type *const *type = b->spec->types; *type; type++) {
        if (ensures(*type, word))
            return true;
        if ((*type)->ensures)
            mr_nearest_offer(&nearest, (*type)->ensures);
    }
    if (all->kind == MR_YAML_LIST)
        for (item = all->first; index > 0; index--)
            item = item->next;
    mr_plan_error(b, item->place, mr_nearest_hint(&nearest, hint, sizeof hint, "write require: blurred"),
                  "require: no stage type makes pictures \"%s\"", word);
    return false;
}

int mr_lint_required(mr_plan_builder *b) {
    const mr_strings *required = &b->spec->required;
    search s = {.b = b, .open = required->count ? mr_arena_array(b->arena, b->link_count, sizeof *s.open) : NULL};
    if (required->count && !s.open)
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < required->count; i++) {
        s.word = required->item[i];
        if (is_known(b, s.word, i))
            check_word(&s);
    }
    return MR_OK;
}
