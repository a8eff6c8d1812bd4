#include "stages/wanted.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/nearest.h"
#include "millrace/objects.h"

/* ---- planning ---------------------------------------------------------------------------------------------------- */

/* False only if planning knows all results. */
bool mr_wanted_may_come(const mr_planned_input *input) {
    const mr_planned_result *one = input->results;
    while (one && one->kind != mr_kind_classes() && one->kind != mr_kind_objects())
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

/* Prints a stage's first labels: "it has cat, dog and 8 others". */
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

/* Whether a stage has that label. One without labels has none. */
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

/* A class that no earlier stage has cannot do anything; if that holds for all, the stage cannot either. */
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

static bool is_number(const char *name) {
    return name[0] && !name[strspn(name, "0123456789")];
}

int mr_wanted_objects_check(mr_negotiation *n, const mr_strings *classes, const char *nothing, const char *none) {
    const char **named = mr_calloc(classes->count + 1, sizeof *named);
    mr_strings labels = {.item = named};
    const mr_wanted wanted = {.classes = &labels, .score = -INFINITY};
    int status = named ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for classes");
    for (size_t i = 0; i < classes->count && !status; i++)
        if (!is_number(classes->item[i]))
            named[labels.count++] = classes->item[i];
    if (!status && labels.count)
        status = mr_wanted_check(n, &wanted, nothing, none);
    mr_free(named);
    return status;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

bool mr_wanted_class(const mr_strings *classes, int32_t index, const char *label) {
    bool wanted = !classes->count;
    for (size_t i = 0; i < classes->count && !wanted; i++) {
        const char *name = classes->item[i];
        char *end;
        const long number = strtol(name, &end, 10);
        wanted = (label && strcmp(label, name) == 0) || (end > name && !*end && number == index);
    }
    return wanted;
}

static bool fits(const mr_wanted *wanted, int index, const mr_sighting *one) {
    if (!(one->score >= (float)wanted->score))
        return false;
    for (int i = 0; one->label && i < (int)wanted->classes->count; i++)
        if ((index < 0 || index == i) && strcmp(one->label, wanted->classes->item[i]) == 0)
            return true;
    return !wanted->classes->count;
}

static bool find_class(const mr_wanted *wanted, const mr_result *result, int index, mr_sighting *found) {
    for (size_t i = 0; i < result->count; i++) {
        *found = (mr_sighting){result->stage, result->classes[i].label, result->classes[i].score};
        if (fits(wanted, index, found))
            return true;
    }
    return false;
}

static bool find_object(const mr_wanted *wanted, const mr_result *result, int index, mr_sighting *found) {
    const mr_object *object = result->data;
    for (size_t i = 0; i < result->count; i++, object++) {
        const mr_object_attribute *attribute = mr_result_items(result, object->attributes);
        *found = (mr_sighting){result->stage, object->label, object->score};
        if (fits(wanted, index, found))
            return true;
        for (uint32_t k = 0; k < object->attributes.count; k++, attribute++) {
            *found = (mr_sighting){attribute->stage, attribute->label, attribute->score};
            if (fits(wanted, index, found))
                return true;
        }
    }
    return false;
}

bool mr_wanted_find(const mr_wanted *wanted, const mr_frame *frame, int index, mr_sighting *found) {
    const mr_result_kind *classes = mr_kind_classes();
    const mr_result *objects = mr_frame_result(frame, mr_kind_objects(), NULL);
    for (const mr_result *one = mr_frame_result(frame, classes, NULL); one;
         one = mr_result_find(one->next, classes, NULL))
        if (find_class(wanted, one, index, found))
            return true;
    return objects && find_object(wanted, objects, index, found);
}
