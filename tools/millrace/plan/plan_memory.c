/* The memory account: every pool in every process, with bytes, as text and JSON. The rows must add up exactly to the
 * totals that the plan prints. */
#include <string.h>

#include "tools/millrace/cli/table.h"
#include "tools/millrace/plan/plan_parts.h"

/* Prints rows for one memory kind, and one row with the sum of the rest. */
enum { MOST_ROWS = 24, NAME = 160 };

static bool is_of_same(const mr_view_row *a, const mr_view_row *b) {
    bool on_device = a->kind == MR_VIEW_DEVICE || a->kind == MR_VIEW_LIBRARIES;
    return a->node == b->node && a->kind == b->kind && (!on_device || a->device == b->device);
}

/* "host", "sim:0", "cuda:0 libraries". */
static const char *memory_name(const mr_plan_view *plan, const mr_view_row *row, char text[NAME]) {
    static const char *const kinds[] = {
        [MR_VIEW_HOST] = "host", [MR_VIEW_PINNED] = "pinned", [MR_VIEW_SHARED] = "shared", [MR_VIEW_QUEUES] = "ZeroMQ"};
    if (row->kind < MR_VIEW_DEVICE)
        return kinds[row->kind];
    snprintf(text, NAME, "%s%s", plan->devices[row->device].name, row->kind == MR_VIEW_DEVICE ? "" : " libraries");
    return text;
}

/* 36646912 -> "36,646,912": readers add these figures, so they must not be rounded. */
static const char *exact(uint64_t bytes, char text[MR_WORDS]) {
    char digits[MR_WORDS];
    int count = snprintf(digits, sizeof digits, "%llu", (unsigned long long)bytes), at = 0;
    for (int i = 0; i < count; i++) {
        if (i && (count - i) % 3 == 0)
            text[at++] = ',';
        text[at++] = digits[i];
    }
    text[at] = 0;
    return text;
}

/* ---- as text --------------------------------------------------------------------------------------------------- */

static void add_bytes(mr_table *table, const mr_view_bytes *bytes) {
    char text[MR_WORDS], most[MR_WORDS];
    bool known = bytes->bytes || !bytes->unknown;
    if (known)
        mr_table_add(table, "%s\t%s%s", mr_words_bytes(bytes->likely, text), exact(bytes->bytes, most),
                     bytes->unknown ? " + ?" : "");
    else
        mr_table_add(table, "?\t?");
}

static void add_row(mr_table *table, const mr_plan_view *plan, const mr_view_row *row) {
    char name[NAME], text[MR_WORDS];
    bool plain = strcmp(row->what, "output") == 0;
    if (plan->node_count)
        mr_table_add(table, "%s", plan->nodes[row->node].id);
    mr_table_add(table, "%s", memory_name(plan, row, name));
    mr_table_add(table, plain ? "%s" : "%s (%s)", row->of, row->what);
    if (row->buffers)
        mr_table_add(table, "%lld", (long long)row->buffers);
    else
        mr_table_add(table, "-");
    mr_table_add(table, "%s", row->each ? mr_words_bytes(row->each, text) : row->buffers ? "?" : "-");
    add_bytes(table, &row->most);
}

static void add_sum(mr_table *table, const mr_plan_view *plan, const mr_view_row *first, size_t count,
                    const char *name) {
    char memory[NAME];
    mr_view_bytes sum = {0};
    for (size_t i = 0; i < count; i++) {
        sum.bytes += first[i].most.bytes;
        sum.likely += first[i].most.likely;
        sum.unknown = sum.unknown || first[i].most.unknown;
    }
    if (plan->node_count)
        mr_table_add(table, "%s", plan->nodes[first->node].id);
    mr_table_add(table, "%s\t%s\t\t", memory_name(plan, first, memory), name);
    add_bytes(table, &sum);
}

/* Prints a process's memory of one kind, with the sum. */
static void add_group(mr_table *table, const mr_plan_view *plan, const mr_view_row *first, size_t count) {
    size_t shown = count > MOST_ROWS ? MOST_ROWS : count;
    char others[NAME];
    for (size_t i = 0; i < shown; i++)
        add_row(table, plan, &first[i]);
    snprintf(others, sizeof others, "%zu others", count - shown);
    if (count > shown)
        add_sum(table, plan, first + shown, count - shown, others);
    if (count > 1)
        add_sum(table, plan, first, count, "all of these");
}

static bool is_told(const mr_plan_view *plan, const mr_view_row *row) {
    return plan->node < 0 || row->node == plan->node;
}

int mr_plan_print_account(const mr_plan_view *plan, int width, FILE *stream) {
    static const mr_column all[] = {{"node", .cut = MR_CUT_MIDDLE},     {"memory", .cut = MR_CUT_LINES},
                                    {"buffers of", .cut = MR_CUT_LINES}, {"count", .right = true},
                                    {"one", .right = true},              {"likely", .right = true},
                                    {"most bytes", .right = true},    {0}};
    mr_table table = {.columns = plan->node_count ? all : all + 1};
    for (size_t at = 0, count; at < plan->row_count; at += count) {
        const mr_view_row *first = &plan->rows[at];
        for (count = 1; at + count < plan->row_count && is_of_same(first, &first[count]); count++)
            ;
        if (is_told(plan, first))
            add_group(&table, plan, first, count);
    }
    if (table.count == 0)
        return MR_OK;
    int status = mr_table_print(&table, width, stream);
    fputc('\n', stream);
    return status;
}

/* ---- as JSON --------------------------------------------------------------------------------------------------- */

static void put_row(yajl_gen json, const mr_plan_view *plan, const mr_view_row *row) {
    static const char *const kinds[] = {[MR_VIEW_HOST] = "host",     [MR_VIEW_PINNED] = "pinned",
                                        [MR_VIEW_SHARED] = "shared", [MR_VIEW_QUEUES] = "queues",
                                        [MR_VIEW_DEVICE] = "device", [MR_VIEW_LIBRARIES] = "libraries"};
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "node", plan->node_count ? plan->nodes[row->node].id : NULL);
        mr_json_text(json, "memory", kinds[row->kind]);
        mr_json_text(json, "device", plan->devices[row->device].name);
        mr_json_text(json, "of", row->of);
        mr_json_text(json, "what", row->what);
        mr_json_integer(json, "buffers", row->buffers);
        mr_json_integer(json, "buffer_bytes", (int64_t)row->each);
        mr_json_integer(json, "bytes", (int64_t)row->most.bytes);
        mr_json_integer(json, "likely", (int64_t)row->most.likely);
        mr_json_bool(json, "unknown", row->most.unknown);
    }
}

void mr_plan_put_account(yajl_gen json, const mr_plan_view *plan) {
    MR_JSON_ARRAY(json, "memory_rows")
        for (size_t i = 0; i < plan->row_count; i++)
            if (is_told(plan, &plan->rows[i]))
                put_row(json, plan, &plan->rows[i]);
}
