/* Finds an extraction's source to replace by the data set's files, and the sources to omit. */
#include <stdlib.h>
#include <string.h>

#include "tools/millrace/train/extract_sources.h"

void mr_extraction_mark(const mr_plan_view *plan, int to, bool *before) {
    for (size_t l = 0; l < plan->link_count; l++)
        if (plan->links[l].to == to && !before[plan->links[l].from]) {
            before[plan->links[l].from] = true;
            mr_extraction_mark(plan, plan->links[l].from, before);
        }
}

/* Whether frames from sources `s` and `other`, which both lead to classify, enter the same stages through the same
 * inputs. Either source then produces the same vectors. */
static bool enters_as(const mr_plan_view *plan, const bool *before, int s, int other) {
    for (size_t l = 0; l < plan->link_count; l++) {
        const mr_view_link *link = &plan->links[l];
        bool found = link->from != s || !before[link->to];
        for (size_t i = 0; i < plan->link_count && !found; i++)
            found = plan->links[i].from == other && plan->links[i].to == link->to &&
                    plan->links[i].to_port == link->to_port;
        if (!found)
            return false;
    }
    return true;
}

static int refuse_apart(const mr_plan_view *plan, const mr_view_stage *classify, const mr_view_stage *first,
                        const mr_view_stage *other) {
    return mr_fail(MR_ERROR_CONFIG,
                   "%s: the sources %s and %s lead to %s by different ways: the files of a data set come through one, "
                   "and vectors of the other way may differ; name a pipeline in which one source leads to %s",
                   plan->file, first->id, other->id, classify->id, classify->id);
}

static int check_source(const mr_plan_view *plan, const mr_view_stage *first, const mr_view_stage *source) {
    if (strcmp(source->type->name, "media") == 0)
        return MR_OK;
    return mr_fail(MR_ERROR_CONFIG, "%s: source %s is of type %s; files of a data set are read by media%s",
                   plan->file, source->id, source->type->name,
                   source == first ? "" : ", and only sources of that type are left out: remove it");
}

/* The data comes through the first source that leads to classify and replaces all such sources, if they take the same
 * way. */
static int choose_source(const mr_plan_view *plan, const mr_view_stage *classify, const bool *before,
                         const mr_view_stage **source) {
    int status = MR_OK;
    *source = NULL;
    for (size_t s = 0; s < plan->source_count && !status; s++) {
        if (!before[s])
            continue;
        if (!*source)
            *source = &plan->stages[s];
        const int first = (int)(*source - plan->stages);
        if (!enters_as(plan, before, (int)s, first) || !enters_as(plan, before, first, (int)s))
            status = refuse_apart(plan, classify, *source, &plan->stages[s]);
    }
    if (!status && !*source)
        status = mr_fail(MR_ERROR_CONFIG, "%s: no source leads to %s", plan->file, classify->id);
    if (!status)
        status = check_source(plan, *source, *source);
    for (size_t s = 0; s < plan->source_count && !status; s++)
        status = check_source(plan, *source, &plan->stages[s]);
    return status;
}

int mr_extraction_find_source(const mr_plan_view *plan, const mr_view_stage *classify, const mr_view_stage **source) {
    if (plan->most_sources)
        return mr_fail(MR_ERROR_CONFIG, "%s: sources come and go (sources.max); name one in place of that", plan->file);
    bool *before = calloc(plan->stage_count, sizeof *before);
    if (!before)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the plan");
    before[classify - plan->stages] = true;
    mr_extraction_mark(plan, (int)(classify - plan->stages), before);
    int status = choose_source(plan, classify, before, source);
    free(before);
    return status;
}
