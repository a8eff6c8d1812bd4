#include "stages/wanted.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/nearest.h"

/* ---- planning ---------------------------------------------------------------------------------------------------- */

/* False only if planning knows all results. */
bool mr_wanted_may_come(const mr_planned_input *input) {
    const mr_planned_result *one = input->results;
    while (one && one->kind != mr_kind_classes())
        one = one->next;
    return one || input->more_results;
}

/* Looks for a "did you mean ...?" in one label, which may hold several names: "cockatoo" in "sulphur-crested cockatoo,
 * Kakatoe galerita". *found: the word is a label. */
static void look_for(const char *wanted, const mr_planned_classes *classes, mr_nearest *nearest, const char **inside,
                     bool *found) {
    for (size_t i = 0; classes->labels && i < classes->count; i++) {
        const char *label = classes->labels[i];
        *found |= strcmp(label, wanted) == 0;
        if (!*inside && strcasestr(label, wanted))
            *inside = label;
        mr_nearest_offer(nearest, label);
    }
}

/* Prints a classifier's first labels: "it has cat, dog and 8 others". */
static const char *some_labels(const mr_planned_classes *classes, char *text, size_t bytes) {
    enum { MOST = 5 };
    const size_t shown = classes->count > MOST ? MOST - 2 : classes->count;
    size_t used = (size_t)snprintf(text, bytes, "it has ");
    if (!classes->labels)
        return "it gives none: add `labels` to it";
    for (size_t i = 0; i < shown && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s\"%.40s\"", i ? ", " : "", classes->labels[i]);
    if (shown < classes->count && used < bytes)
        snprintf(text + used, bytes - used, " and %zu others", classes->count - shown);
    return text;
}

/* Whether a classifier has that label. A classifier without labels has none. */
static bool has_label(mr_negotiation *n, const char *wanted, char *hint, size_t bytes) {
    const mr_planned_classes *classes;
    mr_nearest nearest = {.wanted = wanted};
    const char *inside = NULL;
    char some[256];
    bool found = false, known;
    for (size_t i = 0; (classes = mr_planned_classes_at(n, 0, i, &known)); i++)
        look_for(wanted, classes, &nearest, &inside, &found);
    if (nearest.best)
        mr_nearest_hint(&nearest, hint, bytes, NULL);
    else if (inside)
        snprintf(hint, bytes, "write the whole label: \"%s\"", inside);
    else
        snprintf(hint, bytes, "%s", some_labels(mr_planned_classes_at(n, 0, 0, &known), some, sizeof some));
    return found;
}

/* A class that no earlier classifier has cannot do anything; if that holds for all, the stage cannot either. */
static int check_classes(mr_negotiation *n, const mr_strings *classes, const char *nothing, const char *none) {
    const mr_planned_classes *first;
    char hint[256];
    bool known, any = false;
    first = mr_planned_classes_at(n, 0, 0, &known);
    if (!known || !first)
        return MR_OK;
    for (size_t i = 0; i < classes->count; i++)
        any |= has_label(n, classes->item[i], hint, sizeof hint);
    for (size_t i = 0; i < classes->count; i++) {
        const char *wanted = classes->item[i];
        if (has_label(n, wanted, hint, sizeof hint))
            continue;
        if (!any)
            return mr_refuse(n, "classes", "%s has no label \"%s\", so %s; %s", first->from, wanted, nothing, hint);
        mr_warn(n, "classes", hint, "%s has no label \"%s\", which then %s", first->from, wanted, none);
    }
    return MR_OK;
}

static int check_score(mr_negotiation *n, double score, const char *nothing) {
    const mr_planned_classes *classes;
    double most = -INFINITY;
    bool known;
    for (size_t i = 0; (classes = mr_planned_classes_at(n, 0, i, &known)); i++)
        most = classes->most_score > most ? classes->most_score : most;
    if (!known || most == -INFINITY || score <= most)
        return MR_OK;
    return mr_refuse(n, "score", "no score is above %g, so %s; write score: %g", most, nothing,
                     score <= 100 ? score / 100 : 0.5);
}

int mr_wanted_check(mr_negotiation *n, const mr_wanted *wanted, const char *nothing, const char *none) {
    int status = check_classes(n, wanted->classes, nothing, none);
    return status ? status : check_score(n, wanted->score, nothing);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

int mr_wanted_index(const mr_wanted *wanted, const mr_class *class) {
    if (!(class->score >= (float)wanted->score))
        return -1;
    for (size_t i = 0; class->label && i < wanted->classes->count; i++)
        if (strcmp(class->label, wanted->classes->item[i]) == 0)
            return (int)i;
    return wanted->classes->count ? -1 : 0;
}

const mr_class *mr_wanted_find(const mr_wanted *wanted, const mr_frame *frame, const mr_result **result) {
    const mr_result_kind *classes = mr_kind_classes();
    for (*result = mr_frame_result(frame, classes, NULL); *result;
         *result = mr_result_find((*result)->next, classes, NULL))
        for (size_t i = 0; i < (*result)->count; i++)
            if (mr_wanted_index(wanted, &(*result)->classes[i]) >= 0)
                return &(*result)->classes[i];
    return NULL;
}
