#include "tools/millrace/cli/plan_rows.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

size_t mr_plan_link_sources(const mr_plan_view *plan, const mr_view_link *edge) {
    const mr_view_stage *from = &plan->stages[edge->from];
    return from->role == MR_VIEW_SOURCE ? 1 : from->source_count;
}

const mr_format_set *mr_plan_link_set(const mr_plan_view *plan, const mr_view_link *edge) {
    return &plan->stages[edge->from].outputs[edge->from_port].set;
}

uint64_t mr_plan_link_bytes(const mr_plan_view *plan, const mr_view_link *edge) {
    return plan->stages[edge->from].output_bytes[edge->from_port];
}

double mr_plan_rate(const mr_plan_view *plan, const mr_view_stage *vertex) {
    double rate = 0;
    for (size_t i = 0; i < vertex->source_count; i++) {
        const mr_view_stage *source = &plan->stages[vertex->sources[i]];
        if (source->offer.rate <= 0)
            return 0;
        rate += source->offer.rate;
    }
    return rate;
}

int mr_plan_refuse_external(const mr_plan_view *plan) {
    for (size_t s = 0; s < plan->source_count; s++)
        if (plan->stages[s].type->external && mr_plan_is_told(plan, &plan->stages[s]))
            return mr_fail(MR_ERROR_USAGE, "source %s is of type %s: only a program of its own can run this",
                           plan->stages[s].id, plan->stages[s].type->name);
    return MR_OK;
}

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

size_t mr_plan_told_nodes(const mr_plan_view *plan) {
    return plan->node < 0 ? plan->node_count : 1;
}

int mr_plan_told_node(const mr_plan_view *plan, size_t i) {
    return plan->node < 0 ? (int)i : plan->node;
}

bool mr_plan_is_told(const mr_plan_view *plan, const mr_view_stage *vertex) {
    return plan->node < 0 || vertex->node == plan->node;
}

bool mr_plan_is_inner(const mr_plan_view *plan, const mr_view_link *edge) {
    const mr_view_stage *from = &plan->stages[edge->from], *to = &plan->stages[edge->to];
    return from->node == to->node && mr_plan_is_told(plan, to);
}

/* Data sent to a pipe or a terminal cannot be read back. */
static bool is_stream(const mr_view_file *file) {
    struct stat status;
    return file->option->file == MR_FILE_WRITTEN &&
           (strcmp(file->path, "-") == 0 ||
            (stat(file->path, &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)));
}

bool mr_plan_resumes(const mr_plan_view *plan, int node) {
    for (size_t i = 0; i < plan->file_count; i++)
        if (mr_plan_has_file(plan, node, &plan->files[i]) && is_stream(&plan->files[i]))
            return false;
    return plan->node_count ? plan->nodes[node].restarts_continue : plan->continues;
}

bool mr_plan_node_uses(const mr_plan_view *plan, int node, int device) {
    for (size_t v = 0; v < plan->stage_count; v++)
        for (size_t i = 0; plan->stages[v].node == node && i < mr_view_parts(&plan->stages[v]); i++)
            if (mr_view_part(&plan->stages[v], i) == device)
                return true;
    return false;
}

/* ---- words ----------------------------------------------------------------------------------------------------- */

const char *mr_words_bytes(uint64_t bytes, char text[MR_WORDS]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024; unit++)
        value /= 1024;
    snprintf(text, MR_WORDS, "%.*f %s", unit == 0 || value >= 99.95 ? 0 : 1, value, units[unit]);
    return text;
}

const char *mr_words_rate(double rate, char text[MR_WORDS]) {
    snprintf(text, MR_WORDS, "%.4g fps", rate);
    if (rate >= 10000)
        snprintf(text, MR_WORDS, "%.0f fps", rate);
    return text;
}

const char *mr_words_duration(int64_t ns, char text[MR_WORDS]) {
    double s = (double)ns * 1e-9;
    if (ns < 1000)
        snprintf(text, MR_WORDS, "%d ns", (int)ns);
    else if (s < 1e-3)
        snprintf(text, MR_WORDS, "%.3g us", s * 1e6);
    else if (s < 1)
        snprintf(text, MR_WORDS, "%.3g ms", s * 1e3);
    else if (s < 600)
        snprintf(text, MR_WORDS, "%.4g s", s);
    else if (s < 36000)
        snprintf(text, MR_WORDS, "%.4g min", s / 60);
    else
        snprintf(text, MR_WORDS, "%.4g h", s / 3600);
    return text;
}
