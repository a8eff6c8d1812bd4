#include "tools/millrace/cli/costs.h"

#include <stdlib.h>
#include <yajl/yajl_tree.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/memory.h"

enum { MOST_BYTES = 64 << 20, WHY_BYTES = 256 };

/* The number with that key; 0: none. */
static double number(yajl_val map, const char *key) {
    yajl_val value = mr_json_member(map, key, yajl_t_number);
    return YAJL_IS_INTEGER(value) ? (double)YAJL_GET_INTEGER(value)
           : YAJL_IS_DOUBLE(value) ? YAJL_GET_DOUBLE(value)
                                   : 0;
}

/* For a stage on a device, the device's time; else the processors'. */
static bool take(yajl_val from, double source_frames, mr_measured_cost *cost) {
    yajl_val id = mr_json_member(from, "id", yajl_t_string);
    double on_device = number(from, "device_ns");
    cost->stage = id ? YAJL_GET_STRING(id) : NULL;
    cost->ns = (on_device > 0 ? on_device : number(from, "cpu_ns")) * number(from, "frames") / source_frames;
    return cost->stage && cost->ns > 0;
}

static int take_all(mr_costs *costs, yajl_val tree, const char *path) {
    yajl_val profile = mr_json_member(tree, "profile", yajl_t_object);
    yajl_val list = mr_json_member(profile, "costs", yajl_t_array);
    double frames = number(profile, "frames");
    if (!list || frames <= 0)
        return mr_fail(MR_ERROR_DATA, "%s holds no profile: `millrace plan PIPELINE.yaml --profile --json` prints one",
                       path);
    size_t count = YAJL_GET_ARRAY(list)->len;
    if (!(costs->cost = calloc(count + 1, sizeof *costs->cost)))
        return mr_fail(MR_ERROR_MEMORY, "no memory for costs");
    for (size_t i = 0; i < count; i++)
        costs->count += take(YAJL_GET_ARRAY(list)->values[i], frames, &costs->cost[costs->count]);
    return costs->count ? MR_OK : mr_fail(MR_ERROR_DATA, "%s: no stage has taken any time", path);
}

int mr_costs_read(mr_costs *costs, const char *path) {
    char why[WHY_BYTES] = "";
    mr_file_bytes text;
    mr_costs_fini(costs);
    int status = mr_file_read("the costs", path, MOST_BYTES, 0, &text);
    if (status)
        return status;
    yajl_val tree = mr_json_parse((const char *)text.data, why, sizeof why);
    mr_free(text.data);
    if (!tree)
        return mr_fail(MR_ERROR_DATA, "%s is not JSON as `millrace plan --profile --json` prints it: %s", path, why);
    costs->text = tree;
    status = take_all(costs, tree, path);
    if (status)
        mr_costs_fini(costs);
    return status;
}

void mr_costs_fini(mr_costs *costs) {
    free(costs->cost);
    if (costs->text)
        yajl_tree_free(costs->text);
    *costs = (mr_costs){0};
}
