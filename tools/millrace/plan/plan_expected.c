/* Expected rates of a plan on absent cards (millrace/plan.h), as text and JSON. */
#include <string.h>

#include "tools/millrace/cli/table.h"
#include "tools/millrace/plan/plan_parts.h"

static double larger(double a, double b) {
    return a > b ? a : b;
}

static double busy_ns(const mr_view_work *p) {
    return larger(p->memory_ns, p->operation_ns);
}

/* A frame's whole card time, all uses in sequence. */
static double whole_ns(const mr_view_work *p) {
    return p->upload_ns + p->download_ns + p->launch_ns + busy_ns(p) + p->decode_ns;
}

static const char *time_or_none(double ns, char text[MR_WORDS]) {
    if (ns <= 0)
        snprintf(text, MR_WORDS, "-");
    else if (ns < 1000)
        snprintf(text, MR_WORDS, "%.3g ns", ns);
    else
        mr_words_duration((int64_t)ns, text);
    return text;
}

/* Whether to print a stage: one on a card, or a measured one on the host. */
static bool is_expected(const mr_plan_view *plan, size_t v) {
    const mr_view_expected_stage *of = &plan->expected->stages[v];
    const mr_view_stage *vertex = &plan->stages[v];
    bool ours = mr_plan_is_authored(vertex) || mr_plan_is_copy(vertex);
    return vertex->role != MR_VIEW_SOURCE && ours && mr_plan_is_told(plan, vertex) &&
           (of->device >= 0 || of->host_ns > 0);
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

static void add_stage(mr_table *table, const mr_plan_view *plan, size_t v) {
    const mr_view_expected_stage *of = &plan->expected->stages[v];
    const mr_view_work *p = &of->part;
    char copy[MR_WORDS], launch[MR_WORDS], busy[MR_WORDS], decode[MR_WORDS], rate[MR_WORDS];
    mr_table_add(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s", plan->stages[v].id,
                 time_or_none(p->upload_ns + p->download_ns, copy), time_or_none(p->launch_ns, launch),
                 time_or_none(busy_ns(p), busy), time_or_none(p->decode_ns, decode),
                 of->rate > 0 ? mr_words_rate(of->rate, rate) : "?", of->limit ? of->limit : "-");
}

static int print_stages(const mr_plan_view *plan, int width, FILE *stream) {
    static const mr_column columns[] = {{"expected", .cut = MR_CUT_MIDDLE},
                                        {"copy", .right = true},
                                        {"launch", .right = true},
                                        {"compute", .right = true},
                                        {"decode", .right = true},
                                        {"at most", .right = true},
                                        {"by", .cut = MR_CUT_LINES},
                                        {0}};
    mr_table table = {.columns = columns};
    for (size_t v = 0; v < plan->stage_count; v++)
        if (is_expected(plan, v) && plan->expected->stages[v].device >= 0)
            add_stage(&table, plan, v);
    return mr_table_print(&table, width, stream);
}

static void print_cards(const mr_plan_view *plan, int width, FILE *stream) {
    for (size_t d = 1; d < plan->device_count; d++) {
        const mr_view_card *card = plan->devices[d].card;
        if (card && plan->devices[d].used)
            mr_print_wrapped(width, stream, "%s is modelled as %s (%s)%s", plan->devices[d].name, card->title,
                             card->source,
                             card->measured ? "" : ", at the share of its figures that is usually reached");
    }
}

static void print_missing(const mr_plan_view *plan, int width, FILE *stream) {
    for (size_t v = 0; v < plan->stage_count; v++) {
        const mr_view_stage *vertex = &plan->stages[v];
        if (plan->expected->stages[v].missing && mr_plan_is_told(plan, vertex))
            mr_print_wrapped(width, stream, "not modelled: %s, %s", vertex->id, plan->expected->stages[v].missing);
    }
}

int mr_plan_print_expected(const mr_plan_view *plan, int width, FILE *stream) {
    const mr_view_expected *all = plan->expected;
    char rate[MR_WORDS];
    if (!all)
        return MR_OK;
    fputc('\n', stream);
    print_cards(plan, width, stream);
    int status = print_stages(plan, width, stream);
    const char *device = all->device >= 0 ? plan->devices[all->device].name : NULL;
    const char *stage = all->stage >= 0 ? plan->stages[all->stage].id : NULL;
    if (all->rate > 0)
        mr_print_wrapped(width, stream,
                         "expected by this model of bytes and launches, not measured: at most %s, limited by "
                         "%s%s%s%s%s", mr_words_rate(all->rate, rate), all->limit, device ? " of " : "",
                         device ? device : "", stage ? ", most for " : "", stage ? stage : "");
    else
        mr_print_wrapped(width, stream, "no frame rate is expected: nothing in the model limits it");
    print_missing(plan, width, stream);
    return status;
}

/* ---- as JSON ----------------------------------------------------------------------------------------------------- */

void mr_plan_put_card(yajl_gen json, const mr_view_card *card) {
    mr_json_text(json, "like", card->name);
    mr_json_text(json, "name", card->title);
    mr_json_text(json, "source", card->source);
    mr_json_bool(json, "measured", card->measured);
    mr_json_known(json, "memory_bytes", (double)card->memory_bytes);
    mr_json_known(json, "memory_bytes_s", card->memory_rate);
    mr_json_known(json, "upload_bytes_s", card->upload_rate);
    mr_json_known(json, "download_bytes_s", card->download_rate);
    mr_json_known(json, "f32_s", card->f32_rate);
    mr_json_known(json, "f16_s", card->f16_rate);
    mr_json_known(json, "launch_ns", card->launch_ns);
    mr_json_known(json, "copy_engines", card->copy_engines);
    mr_json_known(json, "kernels", card->kernels);
    mr_json_known(json, "decoders", card->decoders);
    MR_JSON_MAP(json, "decode_fps")
        for (size_t i = 0; i < card->codec_count; i++)
            mr_json_known(json, card->codecs[i].name, card->codecs[i].decode_fps);
}

static void put_card(yajl_gen json, const char *name, const mr_view_card *card) {
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "device", name);
        mr_plan_put_card(json, card);
    }
}

static void put_stage(yajl_gen json, const mr_plan_view *plan, size_t v) {
    const mr_view_expected_stage *of = &plan->expected->stages[v];
    const mr_view_work *p = &of->part;
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "id", plan->stages[v].id);
        mr_json_text(json, "device", of->device >= 0 ? plan->devices[of->device].name : NULL);
        mr_json_number(json, "upload_ns", p->upload_ns);
        mr_json_number(json, "download_ns", p->download_ns);
        mr_json_number(json, "launch_ns", p->launch_ns);
        mr_json_number(json, "memory_ns", p->memory_ns);
        mr_json_number(json, "operation_ns", p->operation_ns);
        mr_json_number(json, "decode_ns", p->decode_ns);
        mr_json_number(json, "frame_ns", whole_ns(p));
        mr_json_known(json, "host_ns", of->host_ns);
        mr_json_known(json, "rate", of->rate);
        mr_json_text(json, "limit", of->limit);
        mr_json_text(json, "not_modelled", of->missing);
    }
}

static void put_device(yajl_gen json, const char *name, const mr_view_expected_device *device) {
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "name", name);
        mr_json_number(json, "upload_ns", device->upload_ns);
        mr_json_number(json, "download_ns", device->download_ns);
        mr_json_number(json, "compute_ns", device->compute_ns);
        mr_json_number(json, "decode_ns", device->decode_ns);
    }
}

static void put_limit(yajl_gen json, const mr_plan_view *plan) {
    const mr_view_expected *all = plan->expected;
    MR_JSON_MAP(json, "limit") {
        mr_json_text(json, "what", all->limit);
        mr_json_text(json, "device", all->device >= 0 ? plan->devices[all->device].name : NULL);
        mr_json_text(json, "stage", all->stage >= 0 ? plan->stages[all->stage].id : NULL);
    }
}

void mr_plan_put_expected(yajl_gen json, const mr_plan_view *plan) {
    if (!plan->expected) {
        mr_json_text(json, "expected", NULL);
        return;
    }
    MR_JSON_MAP(json, "expected") {
        mr_json_bool(json, "model", true);
        mr_json_known(json, "rate", plan->expected->rate);
        mr_json_bool(json, "upper_bound", true); /* kernel arithmetic is not modelled */
        put_limit(json, plan);
        MR_JSON_ARRAY(json, "cards")
            for (size_t d = 0; d < plan->device_count; d++)
                if (plan->devices[d].card)
                    put_card(json, plan->devices[d].name, plan->devices[d].card);
        MR_JSON_ARRAY(json, "devices")
            for (size_t d = 0; d < plan->device_count; d++)
                if (plan->devices[d].card)
                    put_device(json, plan->devices[d].name, &plan->expected->devices[d]);
        MR_JSON_ARRAY(json, "stages")
            for (size_t v = plan->source_count; v < plan->stage_count; v++)
                if (mr_plan_is_told(plan, &plan->stages[v]))
                    put_stage(json, plan, v);
    }
}
