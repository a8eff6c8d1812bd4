/* Prints verify's findings, for people and as JSON. */
#include <math.h>
#include <string.h>

#include "engine/base/print.h"
#include "tools/millrace/cli/table.h"
#include "tools/millrace/verify/verify.h"

static double mean(double sum, uint64_t values) {
    return values ? sum / (double)values : 0;
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

static void add_number(mr_table *table, double value) {
    if (isinf(value))
        mr_table_add(table, "infinite");
    else
        mr_table_add(table, "%.6g", value);
}

static void add_item(mr_table *table, const mr_verify_tap *tap, const mr_verify_item *item) {
    mr_table_add(table, "%s%s%s\t%s\t%llu\t%llu", tap->stage, *tap->port ? "." : "", tap->port, item->what,
                 (unsigned long long)item->frames, (unsigned long long)item->differing);
    add_number(table, item->unlike ? (double)INFINITY : item->sum.largest);
    add_number(table, mean(item->sum.sum, item->sum.values));
    if (!item->sum.floats)
        mr_table_add(table, "-");
    else if (isinf(item->sum.most_ulps))
        mr_table_add(table, "infinite");
    else
        mr_table_add(table, "%.0f", item->sum.most_ulps);
}

static int print_items(const mr_verify *verify, int width, FILE *stream) {
    static const mr_column columns[] = {
        {"stage", .cut = MR_CUT_MIDDLE}, {"gives", .cut = MR_CUT_LINES},
        {"frames", .right = true},       {"differ", .right = true},
        {"largest", .right = true},      {"mean", .right = true},
        {"ULPs", .right = true},         {0},
    };
    mr_table table = {.columns = columns};
    for (size_t i = 0; i < verify->tap_count; i++)
        for (size_t k = 0; k < verify->tap[i].item_count; k++)
            add_item(&table, &verify->tap[i], &verify->tap[i].item[k]);
    return mr_table_print(&table, width, stream);
}

static void print_first(const mr_verify *verify, const mr_verify_tap *tap, FILE *stream) {
    const mr_verify_first *first = &tap->first;
    const mr_identity *id = &first->identity;
    mr_print(stream, "  %s%s%s: the first frame that differs is %s:%llu", tap->stage, *tap->port ? "." : "", tap->port,
             first->source, (unsigned long long)id->seq);
    if (id->epoch || id->sub)
        fprintf(stream, " (epoch %u, part %u)", id->epoch, id->sub);
    if (first->missing)
        mr_print(stream, ", which only %s gave", verify->device[first->missing - 1]);
    else if (isinf(first->error))
        mr_print(stream, ", whose %s is not the same kind of thing, or infinite", first->what);
    else
        mr_print(stream, ", in %s by %.6g", first->what, first->error);
    mr_print(stream, "%s\n", mr_verify_tap_within(tap) ? "; within the tolerance" : "");
}

static void print_missing(const mr_verify *verify, const mr_verify_tap *tap, FILE *stream) {
    for (int side = 0; side < MR_SIDES; side++)
        if (tap->only[side])
            mr_print(stream, "  %s%s%s: %llu frame%s came on %s only\n", tap->stage, *tap->port ? "." : "", tap->port,
                     (unsigned long long)tap->only[side], tap->only[side] == 1 ? "" : "s", verify->device[side]);
}

int mr_verify_print(const mr_verify *verify, int width, FILE *stream) {
    size_t beyond = 0;
    mr_print(stream, "%s against %s, tolerance %g\n\n", verify->device[1], verify->device[0], verify->tolerance);
    int status = print_items(verify, width, stream);
    fputc('\n', stream);
    for (size_t i = 0; i < verify->tap_count; i++) {
        const mr_verify_tap *tap = &verify->tap[i];
        print_missing(verify, tap, stream);
        if (tap->first.known)
            print_first(verify, tap, stream);
        beyond += !mr_verify_tap_within(tap);
    }
    if (beyond)
        fprintf(stream, "  %zu of %zu outputs beyond the tolerance\n", beyond, verify->tap_count);
    else
        fprintf(stream, "  all %zu outputs within the tolerance\n", verify->tap_count);
    return status;
}

/* ---- as JSON ----------------------------------------------------------------------------------------------------- */

/* JSON has no infinity: writes null; `alike` distinguishes the case. */
static void put_item(yajl_gen json, const mr_verify_item *item) {
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "kind", item->kind ? item->kind->name : "picture");
        mr_json_text(json, "name", item->name);
        mr_json_text(json, "what", item->what);
        mr_json_integer(json, "frames", (int64_t)item->frames);
        mr_json_integer(json, "frames_differing", (int64_t)item->differing);
        mr_json_integer(json, "frames_unlike", (int64_t)item->unlike);
        mr_json_integer(json, "values", (int64_t)item->sum.values);
        mr_json_integer(json, "values_differing", (int64_t)item->sum.differing);
        mr_json_integer(json, "values_beyond", (int64_t)item->sum.beyond);
        mr_json_number(json, "largest", item->sum.largest);
        mr_json_number(json, "mean", mean(item->sum.sum, item->sum.values));
        if (item->sum.floats) {
            mr_json_number(json, "largest_ulps", item->sum.most_ulps);
            mr_json_number(json, "mean_ulps", mean(item->sum.ulps_sum, item->sum.values));
        }
        if (item->kind && item->kind->compare)
            mr_json_integer(json, "places_differing", (int64_t)item->sum.reordered);
    }
}

static void put_first(yajl_gen json, const mr_verify *verify, const mr_verify_first *first) {
    mr_json_key(json, "first");
    if (!first->known) {
        yajl_gen_null(json);
        return;
    }
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "source", first->source);
        mr_json_integer(json, "epoch", first->identity.epoch);
        mr_json_integer(json, "seq", (int64_t)first->identity.seq);
        mr_json_integer(json, "sub", first->identity.sub);
        mr_json_text(json, "what", first->what);
        mr_json_number(json, "error", first->error);
        mr_json_text(json, "only_on", first->missing ? verify->device[first->missing - 1] : NULL);
    }
}

static void put_tap(yajl_gen json, const mr_verify *verify, const mr_verify_tap *tap) {
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "stage", tap->stage);
        mr_json_text(json, "port", *tap->port ? tap->port : NULL);
        mr_json_text(json, "type", tap->type);
        mr_json_bool(json, "on_devices", tap->moved);
        mr_json_bool(json, "within", mr_verify_tap_within(tap));
        mr_json_integer(json, "frames", (int64_t)tap->frames);
        mr_json_integer(json, "frames_only_on", (int64_t)tap->only[0]);
        mr_json_integer(json, "frames_only_against", (int64_t)tap->only[1]);
        MR_JSON_ARRAY(json, "gives")
            for (size_t i = 0; i < tap->item_count; i++)
                put_item(json, &tap->item[i]);
        put_first(json, verify, &tap->first);
    }
}

void mr_verify_put_json(yajl_gen json, const mr_verify *verify) {
    mr_json_text(json, "on", verify->device[0]);
    mr_json_text(json, "against", verify->device[1]);
    mr_json_number(json, "tolerance", verify->tolerance);
    mr_json_bool(json, "within", mr_verify_within(verify));
    MR_JSON_ARRAY(json, "outputs")
        for (size_t i = 0; i < verify->tap_count; i++)
            put_tap(json, verify, &verify->tap[i]);
}
