/* millrace verify: runs a pipeline on two devices and compares the output of each stage. */
#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/verify/verify.h"

#include <float.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/temp_folder.h"
#include "millrace/describe.h"
#include "millrace/devices.h"
#include "millrace/log.h"
#include "tools/millrace/cli/complaints.h"
#include "tools/millrace/cli/overrides.h"
#include "tools/millrace/cli/plan_rows.h"
#include "tools/millrace/cli/settings.h"
#include "tools/millrace/cli/table.h"
#include "tools/millrace/run/signals.h"

enum { DIFFERENT = 1 };
static const double default_tolerance = 0.001;
static const int64_t LOOK_NS = 20000000;

typedef struct arguments {
    const char *path;
    mr_overrides overrides;
    const char *device[MR_SIDES];
    char gpu[MR_DEVICE_NAME]; /* the name, if it is the default */
    long long frames;
    double tolerance;
    bool json;
} arguments;

static int take_tolerance(void *to, char *text) {
    if (mr_parse_number(text, 0, DBL_MAX, to))
        return MR_OK;
    return mr_fail(MR_ERROR_USAGE, "takes a number from 0 on, not \"%s\"", text);
}

static int check_device(void *to, char *text) {
    return mr_device_check_name(text);
}

static const mr_usage_option options[] = {
    MR_OPTION("on", "DEVICE", arguments, device[0], "the device whose outputs are taken as right; cpu by default",
              .take = check_device),
    MR_OPTION("against", "DEVICE", arguments, device[1],
              "the device to compare; by default the first GPU that can be used, else sim:0", .take = check_device),
    MR_OPTION_NUMBER("frames", "N", arguments, frames, 1, LLONG_MAX,
                     "compares the first N frames of each source; all by default. A source without an end needs it. "
                     "Ctrl-C ends both sides and shows what was compared"),
    MR_OPTION_TAKE("tolerance", "T", arguments, tolerance, take_tolerance,
                   "by how much a value may differ: a whole number by T; a float by T, or by T times its absolute "
                   "value if that is more than 1. The default is 0.001"),
    MR_OVERRIDE_INPUTS,
    MR_OVERRIDE_FORBIDDING_PLUGINS,
    MR_OVERRIDE_THREADS,
    MR_OPTION("json", NULL, arguments, json, "one JSON object: on, against, tolerance, within, outputs"),
    MR_USAGE_COMMON,
};

static const char *const examples[] = {
    "pipeline.yaml --input lobby.mp4 --frames 100",
    "pipeline.yaml --on cpu --against cuda:0 --tolerance 0.0001", NULL};

static const mr_usage usage = {
    .verb = "verify",
    .synopsis = "PIPELINE.yaml",
    .help = "Runs the pipeline on two devices side by side. Each stage that can compute on them does, whatever device "
            "the YAML names. The outputs of each stage are compared, frame by frame: pictures, tensors, classes by "
            "index and score. The result is the largest and the mean error, for floats also in units in the last "
            "place (ULP), and the first frame that differs.\n"
            "A stage that changes a frame that it gets, which others may read, ends both sides with a message.\n"
            "Nothing is written. No frame is dropped for being late: queues block. Memory does not grow with the "
            "length of the input. --workers and --jobs are for each side.\n"
            "Both sides decode in software, because a GPU's decoder uses another pixel layout. With "
            "--set stages.ID.hardware=auto each side uses its decoder, and the stages after it are still compared.",
    .options = options,
    .notes = "The exit code is 0 if all values are within the tolerance and every frame came on both sides, else 1.",
    .examples = examples,
};

/* ---- the command line -------------------------------------------------------------------------------------------- */

/* Finds the name of the first usable GPU; false: there is none. */
static bool find_gpu(char name[MR_DEVICE_NAME]) {
    const mr_machine *machine;
    uint64_t bytes;
    bool found = false;
    if (mr_machine_open(&machine))
        return false;
    for (size_t i = 0; i < machine->gpu_count && !found; i++) {
        snprintf(name, MR_DEVICE_NAME, "%s", machine->gpus[i].name);
        found = machine->gpus[i].usable && mr_device_probe(name, &bytes) == MR_OK;
    }
    mr_machine_close(&machine);
    return found;
}

static void choose_devices(arguments *to) {
    if (!to->device[0])
        to->device[0] = "cpu";
    if (!to->device[1])
        to->device[1] = find_gpu(to->gpu) ? to->gpu : "sim:0";
}

/* ---- one side ---------------------------------------------------------------------------------------------------- */

/* A GPU's decoder lays out pictures differently from software, so they cannot be compared directly. Both sides decode
 * in software, unless the command line sets something else. */
static int set_hardware(mr_settings *to, const mr_view_stage *vertex) {
    const mr_option *hardware = mr_option_find(vertex->type->options, "hardware");
    if (!hardware || hardware->kind != MR_OPTION_ENUM || mr_settings_has(to, vertex->id, "hardware"))
        return MR_OK;
    return mr_settings_set(to, "off", "stages.", vertex->id, ".hardware");
}

/* Puts the stage on the device if it can run there. It must drop nothing. */
static int set_stage(mr_settings *to, const mr_view_stage *vertex, const char *device) {
    char quoted[MR_DEVICE_NAME + 2];
    int status = MR_OK;
    snprintf(quoted, sizeof quoted, "\"%s\"", mr_verify_moves(vertex, device) ? device : "cpu");
    if (vertex->devices.any)
        status = mr_settings_set(to, quoted, "stages.", vertex->id, ".device");
    if (!status)
        status = set_hardware(to, vertex);
    if (!status && strcmp(vertex->when_full, "block") != 0)
        status = mr_settings_set(to, "block", "stages.", vertex->id, ".queue.when_full");
    return status;
}

static int set_tap(mr_settings *to, const mr_verify_tap *tap) {
    char text[256];
    snprintf(text, sizeof text, "{type: callback, input: \"%s%s%s\"}", tap->stage, *tap->port ? "." : "", tap->port);
    return mr_settings_set(to, text, "stages.", tap->id, "");
}

/* Sets the longest possible deadline, under the source's name in the file. */
static int set_source(mr_settings *to, const mr_view_stage *source) {
    return source->offer.deadline_ns ? mr_settings_set(to, "1h", "sources.", source->offer.written, ".deadline")
                                     : MR_OK;
}

static int make_settings(mr_settings *to, const arguments *from, const mr_verify *verify, const mr_plan_view *plan,
                         int side) {
    int status = mr_settings_init(to, &from->overrides, verify->tap_count + 3 * plan->stage_count + 1);
    /* Both sides also get the plugins' types. */
    if (!status && plan->plugins)
        status = mr_settings_set(to, "[]", "plugins", "", "");
    for (size_t v = 0; v < plan->stage_count && !status; v++)
        if (plan->stages[v].role == MR_VIEW_SOURCE)
            status = set_source(to, &plan->stages[v]);
        else if (!mr_plan_is_copy(&plan->stages[v]))
            status = set_stage(to, &plan->stages[v], from->device[side]);
    for (size_t i = 0; i < verify->tap_count && !status; i++)
        status = set_tap(to, &verify->tap[i]);
    return status;
}

/* Opens one side; errors are printed once. Returns a status. */
static int open_with(mr_pipeline **pipeline, const arguments *from, const mr_verify *verify, const mr_settings *with,
                     int side, const char *folder) {
    char own[MR_TEMP_FOLDER_PATH + 4];
    mr_diagnostics wrong = {0};
    mr_pipeline_params params = {.path = from->path, .check_stages = true};
    mr_overrides_apply(&from->overrides, &params);
    params.types = verify->list[side];
    params.override_count = with->count;
    params.overrides = with->item;
    params.profile = own;
    snprintf(own, sizeof own, "%s/%d", folder, side);
    int status = mkdir(own, 0700) ? mr_fail(MR_ERROR_IO, "cannot make the folder %s", own)
                                  : mr_pipeline_open(pipeline, &params, &wrong);
    if (status)
        mr_complaints_tell(&wrong, status, false);
    mr_diagnostics_fini(&wrong);
    return status;
}

static int open_side(mr_pipeline **pipeline, const arguments *from, mr_verify *verify, const mr_plan_view *plan,
                     int side, const char *folder) {
    mr_settings with;
    int status = make_settings(&with, from, verify, plan, side);
    if (status)
        mr_command_failed(status);
    else
        status = open_with(pipeline, from, verify, &with, side, folder);
    mr_settings_fini(&with);
    if (!status && (status = mr_verify_subscribe(verify, *pipeline, side)))
        mr_command_failed(status);
    return status;
}

/* ---- both sides -------------------------------------------------------------------------------------------------- */

/* Waits for both. Once one has ended, the other no longer waits for it. The first failure counts. */
static int await_both(mr_verify *verify, mr_pipeline *const pipeline[MR_SIDES]) {
    int status[MR_SIDES] = {MR_ERROR_AGAIN, MR_ERROR_AGAIN}, first = MR_OK;
    while (status[0] == MR_ERROR_AGAIN || status[1] == MR_ERROR_AGAIN)
        for (int side = 0; side < MR_SIDES; side++) {
            if (status[side] != MR_ERROR_AGAIN)
                continue;
            status[side] = mr_pipeline_wait(pipeline[side], LOOK_NS);
            if (status[side] == MR_ERROR_AGAIN)
                continue;
            mr_verify_release(verify, side);
            first = first ? first : status[side];
        }
    return first;
}

static int run_both(mr_verify *verify, mr_pipeline *const pipeline[MR_SIDES]) {
    for (int side = 0; side < MR_SIDES; side++) {
        int status = mr_pipeline_start(pipeline[side]);
        if (status)
            return status;
    }
    mr_signals_watch(pipeline[0]);
    int status = await_both(verify, pipeline);
    mr_signals_watch(NULL);
    verify->interrupted = mr_signals_came();
    if (!status && verify->out_of_memory)
        status = mr_fail(MR_ERROR_MEMORY, "no memory for what is compared");
    return status;
}

static int print(const arguments *from, const mr_verify *verify) {
    if (!from->json)
        return mr_verify_print(verify, mr_terminal_width(stdout), stdout);
    yajl_gen json = mr_json_create(true);
    if (!json)
        return MR_ERROR_MEMORY;
    MR_JSON_MAP(json, NULL)
        mr_verify_put_json(json, verify);
    return mr_json_finish(json, stdout);
}

static uint64_t compared(const mr_verify *verify) {
    uint64_t frames = 0;
    for (size_t i = 0; i < verify->tap_count; i++)
        frames += verify->tap[i].frames + verify->tap[i].only[0] + verify->tap[i].only[1];
    return frames;
}

/* Returns an exit code. */
static int report(const arguments *from, mr_verify *verify, const mr_plan_view *plan, int status) {
    mr_verify_finish(verify, plan);
    if (!status && compared(verify) == 0)
        status = mr_fail(MR_ERROR_DATA, "no frame came, so nothing was compared");
    if (!status)
        status = print(from, verify);
    return status ? mr_command_failed(status) : mr_verify_within(verify) ? 0 : DIFFERENT;
}

static int compare_in(const arguments *from, mr_verify *verify, const mr_plan_view *plan, const char *folder) {
    mr_pipeline *pipeline[MR_SIDES] = {0};
    int status = MR_OK, code = 0;
    for (int side = 0; side < MR_SIDES && !status; side++)
        status = open_side(&pipeline[side], from, verify, plan, side, folder);
    code = mr_status_exit_code(status);
    if (!status) {
        status = mr_plan_refuse_external(plan);
        code = report(from, verify, plan, status ? status : run_both(verify, pipeline));
    }
    mr_pipeline_destroy(&pipeline[0]);
    mr_pipeline_destroy(&pipeline[1]);
    return code;
}

static int compare_aside(const arguments *from, const mr_plan_view *plan) {
    mr_temp_folder temp;
    mr_verify verify = {.device = {from->device[0], from->device[1]},
                        .tolerance = from->tolerance,
                        .most_frames = from->frames,
                        .lock = PTHREAD_MUTEX_INITIALIZER};
    int status = mr_verify_tap_plan(&verify, plan), code;
    if (!status)
        status = mr_verify_wrap_sources(&verify, plan->types, plan->source_count);
    if (!status)
        status = mr_temp_folder_make(&temp, NULL);
    if (status) {
        code = mr_command_failed(status);
    } else {
        code = compare_in(from, &verify, plan, temp.folder);
        mr_temp_folder_remove(&temp);
    }
    mr_verify_fini(&verify);
    return code;
}

/* Both sides must end, and must see the same frames. */
static int check_sources(const arguments *from, const mr_plan_view *plan) {
    if (plan->most_sources)
        return mr_fail(MR_ERROR_CONFIG, "%s: sources come and go (sources.max), so it has no end at which two runs "
                       "could be compared: verify it without `max`", plan->file);
    for (size_t v = 0; v < plan->stage_count; v++) {
        const mr_view_stage *source = &plan->stages[v];
        if (source->role != MR_VIEW_SOURCE)
            continue;
        if (source->offer.endless && !from->frames)
            return mr_fail(MR_ERROR_USAGE, "source %s has no end: compare its first frames with --frames N%s",
                           source->id, source->offer.repeats ? "" : ", or verify a recording of it");
        if (source->offer.endless && !source->offer.repeats)
            mr_log(MR_LOG_WARNING, "source %s: each side makes its own connection, and may see other pictures: "
                                   "verify a recording of it", source->id);
    }
    return MR_OK;
}

/* Plans the pipeline as written to find the stages. The devices need not exist. */
static int verify(const arguments *from) {
    const mr_plan_view *plan = NULL;
    mr_diagnostics wrong = {0};
    mr_pipeline_params params = {.path = from->path, .offline = true};
    mr_overrides_apply(&from->overrides, &params);
    int status = mr_plan_view_open(&plan, &params, &wrong);
    if (status)
        mr_complaints_tell(&wrong, status, false);
    mr_diagnostics_fini(&wrong);
    const int wrong_source = status ? MR_OK : check_sources(from, plan);
    int code = status         ? mr_status_exit_code(status)
               : wrong_source ? mr_command_failed(wrong_source)
                              : compare_aside(from, plan);
    mr_plan_view_close(&plan);
    return code;
}

static int run_verb(int argc, char **argv) {
    arguments given = {.tolerance = default_tolerance};
    int code = 0;
    const bool goes_on = mr_usage_take(&usage, argc, argv, &given, &code) &&
                         (given.path = mr_usage_pipeline(&usage, argc, argv, &code));
    if (goes_on && mr_signals_begin(0)) {
        code = mr_command_failed(MR_ERROR_INTERNAL);
    } else if (goes_on) {
        choose_devices(&given);
        code = verify(&given);
        mr_signals_end();
        code = mr_signals_code(code);
    }
    mr_overrides_fini(&given.overrides);
    if (!goes_on || (code && code != DIFFERENT))
        return code;
    int flushed = mr_flush_stdout();
    return flushed ? flushed : code;
}

const mr_verb mr_verify_verb = {&usage, "compare the outputs of a pipeline on two devices", run_verb};
