#include "engine/planner/expect.h"

#include <string.h>

#include "engine/device/device.h"
#include "engine/device/open/open.h"
#include "engine/planner/graph/builder.h"
#include "engine/planner/plan_devices.h"

typedef struct work {
    mr_plan_builder *b;
    const mr_plan *plan;
    mr_view_expected *to;
    mr_view_expected_stage *stages;   /* `to`'s */
    mr_view_expected_device *devices;
} work;

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* The time for that amount of work. 0 if the rate is not known, which the caller reports. */
static double time_ns(double amount, double rate) {
    return rate > 0 ? amount / rate * 1e9 : 0;
}

/* A vertex's first device that is like a card; -1: none. */
static int card_of(const work *w, const mr_plan_vertex *vertex) {
    for (size_t i = 0; i < vertex->devices.count; i++)
        if (w->plan->devices[vertex->devices.at[i]].card)
            return vertex->devices.at[i];
    return -1;
}

/* ---- work that is not modelled ----------------------------------------------------------------------------------- */

static int miss(const work *w, mr_view_expected_stage *of, const char *what) {
    of->missing = of->missing ? mr_arena_print(w->b->arena, "%s; %s", of->missing, what) : what;
    return of->missing ? MR_OK : MR_ERROR_MEMORY;
}

static int miss_figure(const work *w, mr_view_expected_stage *of, double amount, double rate, const char *what) {
    return amount > 0 && rate <= 0 ? miss(w, of, what) : MR_OK;
}

/* ---- stages on a card -------------------------------------------------------------------------------------------- */

/* Bytes of a frame that a stage reads; negative: not known. Results are small beside payloads. */
static double read_bytes(const mr_plan_vertex *vertex) {
    double sum = 0;
    if (vertex->needs.work.read_bytes > 0)
        return vertex->needs.work.read_bytes;
    for (size_t i = 0; i < vertex->input_count; i++) {
        uint64_t bytes = mr_format_set_most_bytes(&vertex->inputs[i].set);
        if (!bytes && vertex->inputs[i].set.payload != MR_PAYLOAD_RESULTS)
            return -1;
        sum += (double)bytes;
    }
    return sum;
}

/* The outputs in the stage's buffers, and scratch memory, which is written and read again. */
static double written_bytes(const mr_plan_vertex *vertex) {
    double sum = 2 * (double)vertex->memory.scratch.bytes / vertex->calls.batch;
    for (size_t port = 0; port < vertex->output_count; port++)
        if (vertex->pools[port].count > 0)
            sum += (double)vertex->pools[port].bytes / vertex->calls.batch;
    return sum;
}

/* A stage that passes frames works on one of several. */
static double spacing_of(const mr_plan_vertex *vertex) {
    return vertex->calls.spacing > 1 ? vertex->calls.spacing : 1;
}

static int expect_memory(const work *w, const mr_plan_vertex *vertex, const mr_card *card, mr_view_expected_stage *of) {
    double read = read_bytes(vertex);
    double bytes = (read > 0 ? read : 0) + written_bytes(vertex) + vertex->needs.work.more_bytes +
                   vertex->needs.work.call_bytes / vertex->calls.batch;
    of->part.memory_ns = time_ns(bytes, card->memory_rate) / spacing_of(vertex);
    if (read < 0 && miss(w, of, "the size of its inputs is not known"))
        return MR_ERROR_MEMORY;
    return miss_figure(w, of, bytes, card->memory_rate, "the card's memory bandwidth is not known");
}

static int expect_kernels(const work *w, const mr_plan_vertex *vertex, const mr_card *card,
                          mr_view_expected_stage *of) {
    const mr_planned_work *takes = &vertex->needs.work;
    of->part.launch_ns = takes->launches * card->launch_ns / vertex->calls.batch / spacing_of(vertex);
    of->part.operation_ns =
        (time_ns(takes->f32_operations, card->f32_rate) + time_ns(takes->f16_operations, card->f16_rate)) /
        spacing_of(vertex);
    if (takes->launches <= 0 && !takes->unknown && miss(w, of, "its kernels are not counted"))
        return MR_ERROR_MEMORY;
    if (takes->unknown && miss(w, of, takes->unknown))
        return MR_ERROR_MEMORY;
    if (miss_figure(w, of, takes->launches, card->launch_ns, "the card's launch time is not known") ||
        miss_figure(w, of, takes->f32_operations, card->f32_rate, "the card's f32 rate is not known") ||
        miss_figure(w, of, takes->f16_operations, card->f16_rate, "the card's f16 rate is not known"))
        return MR_ERROR_MEMORY;
    return expect_memory(w, vertex, card, of);
}

static double decode_fps(const mr_card *card, const char *codec) {
    for (int i = 0; i < MR_CARD_CODECS; i++)
        if (strcmp(mr_card_codec_name((mr_card_codec)i), codec) == 0)
            return card->decode_fps[i];
    return 0;
}

static int expect_decoder(const work *w, const mr_plan_vertex *vertex, const mr_card *card,
                          mr_view_expected_stage *of) {
    const mr_planned_work *takes = &vertex->needs.work;
    double fps = card->decoders > 0 ? decode_fps(card, takes->codec) : 0;
    if (fps <= 0 || takes->decoded_pixels <= 0) {
        const char *why = mr_arena_print(w->b->arena,
                                         fps > 0 ? "the size of pictures of %s is not known"
                                                 : "the card's decoding rate for %s is not known",
                                         takes->codec);
        return why ? miss(w, of, why) : MR_ERROR_MEMORY;
    }
    of->part.decode_ns = 1e9 / fps * takes->decoded_pixels / MR_CARD_DECODED_PIXELS;
    return MR_OK;
}

/* Bytes in a frame's buffers; 0: not known. */
static double copied_bytes(const mr_view_pool *pool) {
    return pool->count > 0 ? (double)(pool->mean ? pool->mean : pool->bytes) : 0;
}

static int expect_copy(const work *w, const mr_view_pool *pool, mr_copy_kind kind, const mr_card *card,
                       mr_view_expected_stage *of) {
    double bytes = copied_bytes(pool);
    double rate = kind == MR_COPY_DOWNLOAD ? card->download_rate : card->upload_rate;
    *(kind == MR_COPY_DOWNLOAD ? &of->part.download_ns : &of->part.upload_ns) += time_ns(bytes, rate);
    if (bytes <= 0)
        return miss(w, of, "the size of the copies is not known");
    return miss_figure(w, of, bytes, rate, "the bandwidth of the card's link is not known");
}

/* A call's duration, from first work to last, per frame. */
static double busy_ns(const mr_view_work *p) {
    return larger(p->memory_ns, p->operation_ns);
}

static double call_ns(const mr_view_work *p) {
    return p->upload_ns + p->download_ns + p->launch_ns + busy_ns(p) + p->decode_ns;
}

static const char *most_of(const mr_view_work *p) {
    const struct {
        double ns;
        const char *name;
    } parts[] = {{p->upload_ns, "uploads"}, {p->download_ns, "downloads"},   {p->launch_ns, "launches"},
                 {p->memory_ns, "memory"},  {p->operation_ns, "operations"}, {p->decode_ns, "decoding"}};
    size_t best = 0;
    for (size_t i = 1; i < sizeof parts / sizeof parts[0]; i++)
        if (parts[i].ns > parts[best].ns)
            best = i;
    return parts[best].ns > 0 ? parts[best].name : NULL;
}

/* A stage's frames a second if it has the cards to itself, limited by the cards and by calls in flight. */
static void limit_stage(const mr_plan_vertex *vertex, const mr_card *card, mr_view_expected_stage *of) {
    const mr_view_work *p = &of->part;
    double cards = (double)vertex->devices.count, calls = (double)vertex->calls.in_flight * vertex->calls.instances;
    double decoders = vertex->calls.instances < card->decoders ? vertex->calls.instances : card->decoders;
    double alone = larger(busy_ns(p), larger(p->upload_ns, p->download_ns)) / cards;
    if (card->kernels <= 1)
        alone = larger(alone, (p->launch_ns + busy_ns(p)) / cards);
    if (p->decode_ns > 0)
        alone = larger(alone, p->decode_ns / decoders / cards);
    double one = call_ns(p) - p->decode_ns;
    of->rate = 1e9 / larger(alone, one / calls);
    of->limit = alone >= one / calls ? most_of(p) : "calls in flight";
}

static int expect_on_card(const work *w, const mr_plan_vertex *vertex, mr_view_expected_stage *of) {
    const mr_card *card = w->plan->devices[of->device].card;
    int status;
    if (vertex->copy)
        status = expect_copy(w, &vertex->pools[0], vertex->copy, card, of);
    else if (vertex->needs.work.codec)
        status = expect_decoder(w, vertex, card, of);
    else
        status = expect_kernels(w, vertex, card, of);
    if (!status && vertex->memory.staging.count > 0)
        status = expect_copy(w, &vertex->memory.staging, MR_COPY_UPLOAD, card, of);
    if (!status && call_ns(&of->part) > 0)
        limit_stage(vertex, card, of);
    return status;
}

/* ---- stages on the host ------------------------------------------------------------------------------------------ */

static double measured_ns(const work *w, const char *id) {
    const mr_plan_params *params = &w->b->params;
    for (size_t i = 0; i < params->cost_count; i++)
        if (strcmp(params->costs[i].stage, id) == 0)
            return params->costs[i].ns;
    return 0;
}

static int expect_on_host(const work *w, const mr_plan_vertex *vertex, mr_view_expected_stage *of) {
    of->host_ns = measured_ns(w, vertex->id);
    if (of->host_ns <= 0)
        return miss(w, of, vertex->devices.at[0] ? "its device is not modelled"
                           : w->b->params.cost_count ? "it was not measured"
                                                     : "it runs on the host's processors");
    of->limit = "processors";
    return MR_OK;
}

/* ---- together ---------------------------------------------------------------------------------------------------- */

/* What fraction of all frames reaches a vertex. */
static double share_of(const work *w, const mr_plan_vertex *vertex) {
    return w->plan->source_count ? (double)vertex->source_count / (double)w->plan->source_count : 1;
}

static void add_to_devices(const work *w, const mr_plan_vertex *vertex, const mr_view_work *p) {
    double share = share_of(w, vertex) / (double)vertex->devices.count;
    for (size_t i = 0; i < vertex->devices.count; i++) {
        mr_view_expected_device *device = &w->devices[vertex->devices.at[i]];
        const mr_card *card = w->plan->devices[vertex->devices.at[i]].card;
        if (!card)
            continue;
        bool one = card->copy_engines == 1;
        device->upload_ns += share * (p->upload_ns + (one ? p->download_ns : 0));
        device->download_ns += one ? 0 : share * p->download_ns;
        device->compute_ns += share * (busy_ns(p) + (card->kernels <= 1 ? p->launch_ns : 0));
        device->decode_ns += card->decoders ? share * p->decode_ns / card->decoders : 0;
    }
}

static void hold_to(const work *w, double rate, const char *limit, int device, int stage) {
    if (!(rate > 0) || (w->to->rate > 0 && rate >= w->to->rate))
        return;
    w->to->rate = rate;
    w->to->limit = limit;
    w->to->device = device;
    w->to->stage = stage;
}

typedef double mr_part_of(const mr_view_work *part);
static double upload_of(const mr_view_work *p) {
    return p->upload_ns + 1e-6 * p->download_ns;
}
static double download_of(const mr_view_work *p) {
    return p->download_ns;
}
static double decode_of(const mr_view_work *p) {
    return p->decode_ns;
}

/* The vertex that uses most of one resource on that device. */
static int heaviest(const work *w, int device, mr_part_of *part) {
    int best = -1;
    double most = 0;
    for (size_t v = 0; v < w->plan->vertex_count; v++) {
        const mr_plan_vertex *vertex = &w->plan->vertices[v];
        for (size_t i = 0; i < vertex->devices.count; i++) {
            double takes = vertex->devices.at[i] == device ? share_of(w, vertex) * part(&w->stages[v].part) : 0;
            if (takes > most) {
                most = takes;
                best = (int)v;
            }
        }
    }
    return best;
}

static void limit_devices(const work *w) {
    for (size_t d = 0; d < w->plan->device_count; d++) {
        const mr_view_expected_device *device = &w->devices[d];
        int i = (int)d;
        const mr_card *card = w->plan->devices[d].card;
        bool one = card && card->copy_engines == 1;
        if (device->upload_ns > 0)
            hold_to(w, 1e9 / device->upload_ns, one ? "copies" : "uploads", i, heaviest(w, i, upload_of));
        if (device->download_ns > 0)
            hold_to(w, 1e9 / device->download_ns, "downloads", i, heaviest(w, i, download_of));
        if (device->compute_ns > 0)
            hold_to(w, 1e9 / device->compute_ns, "the card's processors", i, heaviest(w, i, busy_ns));
        if (device->decode_ns > 0)
            hold_to(w, 1e9 / device->decode_ns, "decoders", i, heaviest(w, i, decode_of));
    }
}

static void limit_stages(const work *w) {
    double host = 0, most = 0;
    int busiest = -1;
    for (size_t v = 0; v < w->plan->vertex_count; v++) {
        const mr_view_expected_stage *of = &w->stages[v];
        double share = share_of(w, &w->plan->vertices[v]);
        if (of->rate > 0 && share > 0)
            hold_to(w, of->rate / share, of->limit, of->device, (int)v);
        host += of->host_ns;
        if (of->host_ns > most) {
            most = of->host_ns;
            busiest = (int)v;
        }
    }
    if (host > 0)
        hold_to(w, w->plan->workers * 1e9 / host, "processors", -1, busiest);
}

/* Sources that keep to a clock limit the rate to theirs. */
static void limit_sources(const work *w) {
    double rate = 0;
    for (size_t s = 0; s < w->plan->source_count; s++) {
        const mr_plan_vertex *source = &w->plan->vertices[s];
        if (!source->offer.paced || source->offer.rate <= 0)
            return;
        rate += source->offer.rate;
    }
    hold_to(w, rate, "sources", -1, -1);
}

static int expect_vertex(const work *w, size_t v) {
    const mr_plan_vertex *vertex = &w->plan->vertices[v];
    mr_view_expected_stage *of = &w->stages[v];
    of->device = card_of(w, vertex);
    int status = vertex->role == MR_ROLE_SOURCE      ? MR_OK
                 : of->device >= 0      ? expect_on_card(w, vertex, of)
                                        : expect_on_host(w, vertex, of);
    if (of->device >= 0)
        add_to_devices(w, vertex, &of->part);
    return status;
}

/* Finds models for devices that are like a card and have none yet. */
static int find_cards(mr_plan_builder *b, bool *any) {
    *any = false;
    for (size_t d = 0; d < b->plan->device_count; d++) {
        mr_plan_device *device = &b->plan->devices[d];
        mr_card card;
        if (!device->card && mr_device_card(device->name, &card) && !(device->card = mr_plan_keep_card(b, &card)))
            return MR_ERROR_MEMORY;
        *any |= device->card != NULL;
    }
    return MR_OK;
}

int mr_plan_expect(mr_plan_builder *b) {
    bool any;
    if (find_cards(b, &any))
        return MR_ERROR_MEMORY;
    if (!any)
        return MR_OK;
    mr_view_expected *made = mr_arena_alloc(b->arena, sizeof *made);
    if (!made)
        return MR_ERROR_MEMORY;
    const work w = {.b = b,
                    .plan = b->plan,
                    .to = made,
                    .stages = mr_arena_array(b->arena, b->plan->vertex_count, sizeof *w.stages),
                    .devices = mr_arena_array(b->arena, b->plan->device_count, sizeof *w.devices)};
    if (!w.stages || !w.devices)
        return MR_ERROR_MEMORY;
    *made = (mr_view_expected){.stages = w.stages, .devices = w.devices, .device = -1, .stage = -1};
    for (size_t v = 0; v < b->plan->vertex_count; v++)
        if (expect_vertex(&w, v))
            return MR_ERROR_MEMORY;
    limit_devices(&w);
    limit_stages(&w);
    limit_sources(&w);
    b->plan->expected = made;
    return MR_OK;
}
