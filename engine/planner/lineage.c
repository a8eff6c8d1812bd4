#include "engine/planner/lineage.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/sha256.h"
#include "engine/text/option_lines.h"
#include "millrace/status.h"

/* Whether a lineage begins here: at a source, or where objects become frames of their own. Which objects those are has
 * no effect on the vector of one. */
static bool begins(const mr_plan_builder *b, int v) {
    return b->vertex[v]->is_source || b->vertex[v]->type->cascade == MR_CASCADE_SPLIT;
}

/* Marks what the vectors at an input are made by. */
static void mark_lineage(const mr_plan_builder *b, int v, size_t input, bool *before) {
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++)
        before[b->link[b->in.item[i]].from] |= (size_t)b->link[b->in.item[i]].to_port == input;
    for (int u = v; u-- > 0;)
        for (int i = b->in.start[u]; before[u] && !begins(b, u) && i < b->in.start[u + 1]; i++)
            before[b->link[b->in.item[i]].from] = true;
}

/* A vertex's name in a lineage: the type, with a number if another vertex with that type comes before. All sources have
 * one name. `before`: the vertices in the lineage. */
static const char *name_in(const mr_plan_builder *b, const bool *before, int v, char text[MR_SPEC_ID_BYTES + 16]) {
    int same = 1;
    for (int u = 0; u < v; u++)
        same += before[u] && b->vertex[u]->type == b->vertex[v]->type;
    if (begins(b, v))
        snprintf(text, MR_SPEC_ID_BYTES + 16, "source");
    else if (same > 1)
        snprintf(text, MR_SPEC_ID_BYTES + 16, "%s#%d", b->vertex[v]->type->name, same);
    else
        snprintf(text, MR_SPEC_ID_BYTES + 16, "%s", b->vertex[v]->type->name);
    return text;
}

/* "join <- hog.out at a, histogram.out at b": several sources at one input are one. */
static void put_links(FILE *to, const mr_plan_builder *b, const bool *before, int v, size_t only) {
    char name[MR_SPEC_ID_BYTES + 16];
    bool source[MR_SPEC_MAX_PORTS] = {0};
    const char *between = " <- ";
    for (int i = b->in.start[v]; i < b->in.start[v + 1]; i++) {
        const mr_plan_link *link = &b->link[b->in.item[i]];
        const mr_planned_input *input = &b->plan->vertices[v].inputs[link->to_port];
        const bool is_source = begins(b, link->from);
        const int port = link->to_port < MR_SPEC_MAX_PORTS ? link->to_port : MR_SPEC_MAX_PORTS - 1;
        if ((is_source && source[port]) || (only != SIZE_MAX && (size_t)link->to_port != only))
            continue;
        source[port] = source[port] || is_source;
        fprintf(to, "%s%s.%s at %s", between, name_in(b, before, link->from, name),
                is_source ? "out" : b->vertex[link->from]->type->outputs[link->from_port].name, input->port);
        between = ", ";
    }
    fputc('\n', to);
}

static int put_lineage(FILE *to, const mr_plan_builder *b, int v, size_t input, const bool *before) {
    char name[MR_SPEC_ID_BYTES + 16];
    int status = MR_OK;
    for (int u = 0; u < v && !status; u++) {
        if (!before[u] || begins(b, u))
            continue;
        fputs(name_in(b, before, u, name), to);
        put_links(to, b, before, u, SIZE_MAX);
        status = mr_option_lines(to, name, b->vertex[u]->type->options, b->vertex[u]->options);
    }
    fputs("vector", to);
    put_links(to, b, before, v, input);
    return status;
}

static int no_memory(const mr_plan_builder *b, int v) {
    return mr_fail(MR_ERROR_MEMORY, "no memory for the lineage of %s", b->vertex[v]->id);
}

int mr_plan_lineage(const mr_plan_builder *b, int v, size_t input, bool *before, mr_lineage *lineage) {
    char *text = NULL, digest[MR_SHA256_TEXT];
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    int status = to ? MR_OK : no_memory(b, v);
    if (to) {
        mark_lineage(b, v, input, before);
        status = put_lineage(to, b, v, input, before);
        if (fclose(to) && !status)
            status = no_memory(b, v);
    }
    if (!status)
        status = mr_sha256_bytes(text, bytes, digest);
    if (!status) {
        lineage->stages = mr_arena_text(b->arena, text, bytes);
        lineage->digest = mr_arena_text(b->arena, digest, strlen(digest));
        status = lineage->stages && lineage->digest ? MR_OK : MR_ERROR_MEMORY;
    }
    free(text);
    return status;
}
