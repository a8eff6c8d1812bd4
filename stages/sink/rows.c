#include "stages/sink/rows.h"

#include <stdio.h>
#include <string.h>

#include "millrace/events.h"
#include "millrace/objects.h"
#include "millrace/text.h"

/* ---- planning ---------------------------------------------------------------------------------------------------- */

const mr_result_kind *mr_rows_find_kind(const mr_planned_input *input, const char *name) {
    const mr_result_kind *const known[] = {mr_kind_classes(), mr_kind_objects(), mr_kind_events(), mr_kind_text()};
    for (const mr_planned_result *one = input->results; one; one = one->next)
        if (one->kind->fields && strcmp(one->kind->name, name) == 0)
            return one->kind;
    for (size_t i = 0; i < sizeof known / sizeof *known && input->more_results; i++)
        if (strcmp(known[i]->name, name) == 0)
            return known[i];
    return NULL;
}

/* Whether no result before `one` has its kind. */
static bool is_first(const mr_planned_result *results, const mr_planned_result *one) {
    while (results != one && results->kind != one->kind)
        results = results->next;
    return results == one;
}

int mr_rows_refuse(mr_negotiation *n, const char *wanted) {
    char kinds[200] = "";
    for (const mr_planned_result *one = n->inputs[0].results; one; one = one->next)
        if (one->kind->fields && is_first(n->inputs[0].results, one) &&
            strlen(kinds) + strlen(one->kind->name) + 3 < sizeof kinds)
            sprintf(kinds + strlen(kinds), "%s%s", *kinds ? ", " : "", one->kind->name);
    return mr_refuse(n, "results", "no stage before it gives results of the kind \"%s\" with fields; %s%s", wanted,
                     *kinds ? "it can have rows for " : "jsonl writes tensors (tensors: true)", kinds);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* Whether a stage's result was replaced by a newer one of the same stage. */
static bool is_replaced(const mr_frame *frame, const mr_result *result) {
    return mr_frame_result(frame, result->kind, result->stage) != result;
}

const mr_result *mr_rows_next(const mr_frame *frame, const mr_result_kind *kind, const mr_result *last) {
    if (!last)
        return mr_frame_result(frame, kind, NULL);
    const mr_result *next = kind->rare ? mr_result_find(last->next, kind, NULL) : NULL;
    while (next && is_replaced(frame, next))
        next = mr_result_find(next->next, kind, NULL);
    return next;
}
