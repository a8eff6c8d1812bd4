/* millrace devices --models: the cards that `like` and `--assume` accept by name. */
#include "millrace/plan.h"
#include "millrace/status.h"
#include "tools/millrace/cli/table.h"
#include "tools/millrace/devices/devices.h"
#include "tools/millrace/plan/plan_parts.h"

int mr_devices_put_models(FILE *stream) {
    yajl_gen json = mr_json_create(true);
    if (!json)
        return MR_ERROR_MEMORY;
    MR_JSON_MAP(json, NULL)
        MR_JSON_ARRAY(json, "models")
            for (size_t i = 0; mr_view_model(i); i++)
                MR_JSON_MAP(json, NULL)
                    mr_plan_put_card(json, mr_view_model(i));
    return mr_json_finish(json, stream);
}

static void add_model(mr_table *table, const mr_view_card *card) {
    mr_table_add(table, "%s\t%s\t%.0f GiB\t%.0f GB/s\t%.0f GB/s\t%.1f T/s\t%.0f T/s\t%d", card->name, card->title,
                 (double)card->memory_bytes / (1 << 30), card->memory_rate / 1e9, card->upload_rate / 1e9,
                 card->f32_rate / 1e12, card->f16_rate / 1e12, card->decoders);
}

int mr_devices_print_models(FILE *stream) {
    static const mr_column columns[] = {{"like", .cut = MR_CUT_NEVER}, {"card", .cut = MR_CUT_LINES},
                                        {"memory", .right = true},     {"at", .right = true},
                                        {"link", .right = true},       {"f32", .right = true},
                                        {"f16", .right = true},        {"NVDEC", .right = true},
                                        {0}};
    mr_table table = {.columns = columns};
    int width = mr_terminal_width(stream);
    for (size_t i = 0; mr_view_model(i); i++)
        add_model(&table, mr_view_model(i));
    int status = mr_table_print(&table, width, stream);
    if (status)
        return status;
    fputc('\n', stream);
    mr_print_wrapped(width, stream,
                     "Rates are those of public data sheets, times the share that programs usually reach. Use: "
                     "sim:0?like=h100 as a device, or plan --assume cuda:1xH100.");
    return MR_OK;
}
