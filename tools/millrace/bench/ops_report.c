#include "tools/millrace/bench/ops_report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/memory.h"
#include "millrace/devices.h"
#include "tools/millrace/bench/ops.h"

static const double usual_seconds = 0.25;

/* Lists the processors and all usable GPUs. The caller must close the machine after the last use of the names. */
static int find_devices(mr_words *devices, const mr_machine **machine) {
    int status = mr_machine_open(machine);
    if (!status)
        status = mr_words_add(devices, "cpu");
    for (size_t i = 0; !status && i < (*machine)->gpu_count; i++)
        if ((*machine)->gpus[i].usable)
            status = mr_words_add(devices, (*machine)->gpus[i].name);
    return status;
}

static int put_json(const mr_ops *all, size_t count) {
    yajl_gen json = mr_json_create(true);
    if (!json)
        return MR_ERROR_MEMORY;
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "bench", "ops");
        MR_JSON_ARRAY(json, "devices")
            for (size_t i = 0; i < count; i++)
                mr_ops_put_json(json, &all[i]);
    }
    return mr_json_finish(json, stdout);
}

static int put_tables(const mr_ops *all, size_t count) {
    int status = MR_OK;
    for (size_t i = 0; i < count && !status; i++) {
        if (i)
            putchar('\n');
        status = mr_ops_print(&all[i]);
    }
    return status;
}

/* Returns an exit code. */
static int report(const mr_usage *usage, const mr_ops_request *request, const mr_ops *all, size_t count,
                  bool as_json) {
    size_t matching = 0;
    for (size_t i = 0; i < count; i++)
        matching += all[i].matching;
    if (!matching)
        return mr_usage_error(usage, "--only %s names no operation; bench ops without it lists them", request->only);
    int status = as_json ? put_json(all, count) : put_tables(all, count);
    return status ? mr_command_failed(status) : as_json ? 0 : mr_flush_stdout();
}

static int run(const mr_usage *usage, const mr_ops_request *request, mr_ops *all, long long seconds, bool as_json) {
    const mr_ops_params params = {
        .only = request->only,
        .models = request->models.item,
        .seconds = seconds ? (double)seconds : usual_seconds,
        .progress = isatty(STDERR_FILENO) && getenv("TERM") && strcmp(getenv("TERM"), "dumb") != 0,
    };
    size_t count = 0;
    int status = MR_OK;
    for (; count < request->devices.count && !status; count++)
        status = mr_ops_measure(&all[count], request->devices.item[count], &params);
    int code = status ? mr_command_failed(status) : report(usage, request, all, count, as_json);
    for (size_t i = 0; i < count; i++)
        mr_ops_fini(&all[i]);
    return code;
}

/* Must happen before anything is measured. */
static int check_files(const mr_ops_request *request) {
    int status = MR_OK;
    for (size_t i = 0; i < request->models.count && !status; i++)
        if (access(request->models.item[i], R_OK))
            status = mr_fail(MR_ERROR_NO_INPUT, "cannot read the model %s", request->models.item[i]);
    return status;
}

int mr_bench_ops(const mr_usage *usage, mr_ops_request *request, long long seconds, bool as_json) {
    const mr_machine *machine = NULL;
    int status = check_files(request);
    if (!status && !request->devices.count)
        status = find_devices(&request->devices, &machine);
    mr_ops *all = mr_calloc(request->devices.count + 1, sizeof *all);
    if (!status && !all)
        status = mr_fail(MR_ERROR_MEMORY, "no memory for figures");
    int code = status ? mr_command_failed(status) : run(usage, request, all, seconds, as_json);
    mr_free(all);
    mr_machine_close(&machine);
    return code;
}
