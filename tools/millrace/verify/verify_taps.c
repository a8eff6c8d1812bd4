/* Taps: compare each stage's output with its twin's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/millrace/verify/verify.h"

enum { ID_ROOM = 24 };

/* ---- which ------------------------------------------------------------------------------------------------------- */

bool mr_verify_moves(const mr_view_stage *stage, const char *device) {
    return strcmp(device, "cpu") != 0 && stage->devices.any &&
           (stage->type->cuda || strncmp(device, "cuda", 4) != 0);
}

static bool id_taken(const mr_plan_view *plan, const char *id) {
    for (size_t v = 0; v < plan->stage_count; v++)
        if (strcmp(plan->stages[v].id, id) == 0)
            return true;
    return false;
}

static char *new_id(const mr_plan_view *plan, size_t number) {
    char *id = malloc(ID_ROOM);
    for (int tries = 0; id && (tries == 0 || id_taken(plan, id)); tries++)
        snprintf(id, ID_ROOM, tries ? "verify-%zu-%d" : "verify-%zu", number, tries);
    return id;
}

static int add_tap(mr_verify *verify, const mr_plan_view *plan, const mr_view_stage *vertex, size_t port) {
    mr_verify_tap *tap = &verify->tap[verify->tap_count];
    *tap = (mr_verify_tap){
        .verify = verify,
        .id = new_id(plan, verify->tap_count),
        .stage = strdup(vertex->id),
        .port = strdup(vertex->output_count > 1 ? vertex->type->outputs[port].name : ""),
        .type = vertex->type->name,
        .moved = mr_verify_moves(vertex, verify->device[0]) || mr_verify_moves(vertex, verify->device[1]),
        .payload = vertex->outputs[port].shares < 0,
    };
    tap->end[0] = &tap->waiting[0];
    tap->end[1] = &tap->waiting[1];
    verify->tap_count++;
    return tap->id && tap->stage && tap->port ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for what is compared");
}

int mr_verify_tap_plan(mr_verify *verify, const mr_plan_view *plan) {
    size_t outputs = 0;
    bool moved = false;
    int status = MR_OK;
    for (size_t v = plan->source_count; v < plan->stage_count; v++)
        outputs += mr_plan_is_copy(&plan->stages[v]) ? 0 : plan->stages[v].output_count;
    verify->tap = calloc(outputs + 1, sizeof *verify->tap);
    if (!verify->tap)
        return mr_fail(MR_ERROR_MEMORY, "no memory for what is compared");
    for (size_t v = plan->source_count; v < plan->stage_count && !status; v++) {
        const mr_view_stage *vertex = &plan->stages[v];
        moved = moved || mr_verify_moves(vertex, verify->device[0]) ||
                mr_verify_moves(vertex, verify->device[1]);
        for (size_t port = 0; port < vertex->output_count && !mr_plan_is_copy(vertex) && !status; port++)
            status = add_tap(verify, plan, vertex, port);
    }
    if (!status && !moved)
        status =
            mr_fail(MR_ERROR_CONFIG, "no stage of this pipeline works on devices, so there is nothing to compare");
    return status;
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static void describe(const mr_part *part, char *text, size_t bytes) {
    char format[MR_FORMAT_TEXT];
    if (part->kind && part->kind->fields) {
        snprintf(text, bytes, "%s%s%s", part->name ? part->name : "", part->name ? ": " : "", part->kind->name);
        return;
    }
    mr_format_print(&part->format, format, sizeof format);
    if (part->name)
        snprintf(text, bytes, "%.64s: %s", part->name, format);
    else
        snprintf(text, bytes, "%s", format);
}

static bool same_name(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Finds a part's item, or adds it. NULL: there are too many. With the lock. */
static mr_verify_item *item_of(mr_verify_tap *tap, const mr_part *part) {
    for (size_t i = 0; i < tap->item_count; i++)
        if (tap->item[i].kind == part->kind && same_name(tap->item[i].name, part->name))
            return &tap->item[i];
    if (tap->item_count == MR_CAPTURE_PARTS)
        return NULL;
    mr_verify_item *item = &tap->item[tap->item_count++];
    *item = (mr_verify_item){.kind = part->kind, .name = part->name};
    describe(part, item->what, sizeof item->what);
    return item;
}

/* Records a frame that differs, if it comes before the known one. With the lock. */
static void remember(mr_verify_tap *tap, const mr_identity *identity, const char *what, double error, int missing) {
    mr_verify_first *first = &tap->first;
    if (first->known && mr_identity_compare(&first->identity, identity) <= 0)
        return;
    first->known = true;
    first->identity = *identity;
    first->error = error;
    first->missing = missing;
    snprintf(first->what, sizeof first->what, "%s", what);
}

static const mr_part *part_of(const mr_capture *capture, const mr_part *like) {
    for (size_t i = 0; i < capture->part_count; i++)
        if (capture->part[i].kind == like->kind && same_name(capture->part[i].name, like->name))
            return &capture->part[i];
    return NULL;
}

/* Compares a part from side 0 with the one from side 1; either may be missing. Takes the lock only to add the
 * result. */
static void compare_part(mr_verify_tap *tap, const mr_identity *identity, const mr_part *a, const mr_part *b) {
    mr_error_sum sum = {0};
    bool alike = a && b && mr_compare_parts(a, b, tap->verify->tolerance, &sum);
    pthread_mutex_lock(&tap->verify->lock);
    mr_verify_item *item = item_of(tap, a ? a : b);
    if (item) {
        bool differs = !alike || sum.differing || sum.reordered;
        item->frames++;
        item->unlike += !alike;
        item->differing += differs;
        mr_error_sum_add(&item->sum, &sum);
        if (differs)
            remember(tap, identity, item->what, alike ? sum.largest : (double)INFINITY, 0);
    }
    pthread_mutex_unlock(&tap->verify->lock);
}

static void compare(mr_verify_tap *tap, const mr_capture *a, const mr_capture *b) {
    for (size_t i = 0; i < a->part_count; i++)
        compare_part(tap, &a->identity, &a->part[i], part_of(b, &a->part[i]));
    for (size_t i = 0; i < b->part_count; i++)
        if (!part_of(a, &b->part[i]))
            compare_part(tap, &a->identity, NULL, &b->part[i]);
}

/* ---- matching captures ------------------------------------------------------------------------------------------- */

/* Removes that frame's waiting capture and returns it; NULL: there is none. With the lock. */
static mr_capture *take_twin(mr_verify_tap *tap, int side, const mr_identity *identity) {
    for (mr_capture **link = &tap->waiting[side]; *link; link = &(*link)->next)
        if (mr_identity_compare(&(*link)->identity, identity) == 0) {
            mr_capture *taken = *link;
            *link = taken->next;
            if (!*link)
                tap->end[side] = link;
            return taken;
        }
    return NULL;
}

static void meet(mr_verify_tap *tap, int side, mr_capture *capture) {
    pthread_mutex_lock(&tap->verify->lock);
    mr_capture *twin = take_twin(tap, 1 - side, &capture->identity);
    if (twin) {
        tap->frames++;
    } else {
        *tap->end[side] = capture;
        tap->end[side] = &capture->next;
    }
    pthread_mutex_unlock(&tap->verify->lock);
    if (!twin)
        return;
    compare(tap, side == 0 ? capture : twin, side == 0 ? twin : capture);
    free(capture);
    free(twin);
}

static void look(mr_verify_tap *tap, int side, const mr_frame *frame) {
    mr_capture *capture = mr_capture_create(frame, tap->stage, tap->payload);
    if (capture) {
        meet(tap, side, capture);
        return;
    }
    pthread_mutex_lock(&tap->verify->lock);
    tap->verify->out_of_memory = true;
    pthread_mutex_unlock(&tap->verify->lock);
}

static void look_at_first(void *context, const char *source, const mr_frame *frame) {
    look(context, 0, frame);
}

static void look_at_second(void *context, const char *source, const mr_frame *frame) {
    look(context, 1, frame);
}

int mr_verify_subscribe(mr_verify *verify, mr_pipeline *pipeline, int side) {
    int status = MR_OK;
    for (size_t i = 0; i < verify->tap_count && !status; i++)
        status = mr_pipeline_subscribe(pipeline, verify->tap[i].id, side == 0 ? look_at_first : look_at_second,
                                       &verify->tap[i]);
    return status;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* If both were asked to end, frames that the other side did not read do not count as missing. */
static bool is_beyond(const mr_verify *verify, const mr_identity *identity, int side) {
    return verify->interrupted && identity->source < verify->source_count &&
           identity->seq >= verify->given[1 - side][identity->source];
}

static void finish_side(const mr_verify *verify, mr_verify_tap *tap, int side) {
    while (tap->waiting[side]) {
        mr_capture *gone = tap->waiting[side];
        tap->waiting[side] = gone->next;
        if (!is_beyond(verify, &gone->identity, side)) {
            tap->only[side]++;
            remember(tap, &gone->identity, "the whole frame", (double)INFINITY, side + 1);
        }
        free(gone);
    }
    tap->end[side] = &tap->waiting[side];
}

void mr_verify_finish(mr_verify *verify, const mr_plan_view *plan) {
    for (size_t i = 0; i < verify->tap_count; i++) {
        mr_verify_tap *tap = &verify->tap[i];
        finish_side(verify, tap, 0);
        finish_side(verify, tap, 1);
        if (tap->first.known)
            snprintf(tap->first.source, sizeof tap->first.source, "%s",
                     plan->stages[tap->first.identity.source].id);
    }
}

bool mr_verify_tap_within(const mr_verify_tap *tap) {
    if (tap->only[0] || tap->only[1])
        return false;
    for (size_t i = 0; i < tap->item_count; i++)
        if (tap->item[i].unlike || tap->item[i].sum.beyond)
            return false;
    return true;
}

bool mr_verify_within(const mr_verify *verify) {
    for (size_t i = 0; i < verify->tap_count; i++)
        if (!mr_verify_tap_within(&verify->tap[i]))
            return false;
    return true;
}

void mr_verify_fini(mr_verify *verify) {
    for (size_t i = 0; i < verify->tap_count; i++) {
        mr_verify_tap *tap = &verify->tap[i];
        finish_side(verify, tap, 0);
        finish_side(verify, tap, 1);
        free(tap->id);
        free(tap->stage);
        free(tap->port);
    }
    free(verify->tap);
    mr_verify_unwrap_sources(verify);
}
