#include "tools/millrace/deploy/deploy_make.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/memory.h"
#include "engine/base/nearest.h"
#include "millrace/describe.h"
#include "tools/millrace/cli/complaints.h"
#include "tools/millrace/cli/plan_rows.h"
#include "tools/millrace/cli/types.h"
#include "tools/millrace/deploy/deploy_targets.h"

static int (*const writers[])(const mr_deployment *of) = {mr_deploy_slurm, mr_deploy_kubernetes, mr_deploy_systemd};

/* ---- the command line ------------------------------------------------------------------------------------------ */

static bool has_word(const mr_deployment *of, const char *option) {
    const size_t length = strlen(option);
    for (char *const *word = of->words; *word; word++)
        if (strncmp(*word, option, length) == 0 && (!(*word)[length] || (*word)[length] == '='))
            return true;
    return false;
}

static const char *const target_names[MR_DEPLOY_TARGETS] = {"slurm", "kubernetes", "systemd"};

/* Returns an exit code. */
static int check_target(const mr_usage *usage, const mr_deployment *of) {
    const bool pods = of->target == MR_DEPLOY_KUBERNETES;
    if (of->claim && !pods)
        return mr_usage_error(usage, "--volume is for --target kubernetes");
    if (of->on_death == MR_DEATH_ENDS && pods)
        return mr_usage_error(usage, "--on-death end is for --target slurm and systemd: Kubernetes starts each pod "
                                     "again and ends no Job because another has failed");
    if (!of->trains)
        return 0;
    if (of->target == MR_DEPLOY_SYSTEMD)
        return mr_usage_error(usage, "--train is for --target slurm and kubernetes: a training is no service");
    if (of->overrides->inputs.count)
        return mr_usage_error(usage, "--input is what a run reads; a training reads --data, after \"--\"");
    if (of->overrides->force)
        return mr_usage_error(usage, "--force is about the head that a run takes; a training makes one");
    if (!has_word(of, "--data") || !has_word(of, "--output"))
        return mr_usage_error(usage, "--train takes options of train after \"--\", such as -- --data photos "
                                      "--output head");
    if (pods && (!of->claim || !has_word(of, "--cache")))
        return mr_usage_error(usage, "pods share no folder but a volume: name it (--volume CLAIM=/data), and a "
                                      "--cache in it after \"--\"");
    return 0;
}

/* Splits CLAIM=PATH in place. */
int mr_deploy_take_volume(void *to, char *text) {
    mr_deployment *of = to;
    char *equals = strchr(text, '=');
    if (!equals || equals == text || equals[1] != '/')
        return mr_fail(MR_ERROR_USAGE, "takes a claim and an absolute path, such as photos=/data, not \"%s\"",
                       text);
    *equals = 0;
    of->claim = text;
    of->mount = equals + 1;
    return MR_OK;
}

/* The target as the first word: "systemd pipeline.yaml". */
static void take_target(mr_deployment *of, int argc, char **argv) {
    for (int i = 0; i < MR_DEPLOY_TARGETS && optind + 1 < argc; i++)
        if (of->target == MR_DEPLOY_TARGETS && strcmp(argv[optind], target_names[i]) == 0) {
            of->target = (mr_deploy_target)i;
            optind++;
        }
}

/* Two words may be a target, misspelt, and a pipeline. Returns an exit code. */
static int refuse_words(const mr_usage *usage, const mr_deployment *of, const char *first) {
    mr_nearest nearest = {.wanted = first};
    for (int i = 0; i < MR_DEPLOY_TARGETS && of->target == MR_DEPLOY_TARGETS; i++)
        mr_nearest_offer(&nearest, target_names[i]);
    return nearest.best ? mr_usage_error(usage, "there is no target \"%s\"; did you mean \"%s\"?", first, nearest.best)
                        : mr_usage_error(usage, "one pipeline at a time");
}

int mr_deploy_take_words(const mr_usage *usage, mr_deployment *of, const mr_overrides *overrides, int argc,
                         char **argv) {
    of->overrides = overrides;
    take_target(of, argc, argv);
    if (optind == argc)
        return mr_usage_error(usage, "name a pipeline");
    if (optind + 1 != argc && !of->trains)
        return refuse_words(usage, of, argv[optind]);
    if (of->target == MR_DEPLOY_TARGETS)
        return mr_usage_error(usage, "name the target: --target slurm, kubernetes or systemd");
    if (strcmp(argv[optind], "-") == 0)
        return mr_usage_error(usage, "each node reads the pipeline: save it to a file");
    of->path = argv[optind];
    of->words = argv + optind + 1;
    return check_target(usage, of);
}

/* ---- together -------------------------------------------------------------------------------------------------- */

static int number_run(mr_deployment *of) {
    uint64_t run;
    if (getrandom(&run, sizeof run, 0) != (ssize_t)sizeof run)
        return mr_fail(MR_ERROR_INTERNAL, "no random number for the run: %s", strerror(errno));
    snprintf(of->run, sizeof of->run, "%016llx", (unsigned long long)run);
    return MR_OK;
}

static int find_names(mr_deployment *of) {
    of->name = mr_deploy_name(of->plan->name);
    of->path = of->owned[0] = realpath(of->path, NULL);
    if (!of->command)
        of->command = of->owned[1] = realpath("/proc/self/exe", NULL);
    of->written = calloc(1, sizeof *of->written);
    const bool made = of->name && of->path && of->command && of->written;
    return made ? number_run(of) : mr_fail(MR_ERROR_MEMORY, "no memory for a deployment");
}

int mr_deploy_write(mr_deployment *of) {
    int status = mr_deploy_check(of);
    if (!status && mkdir(of->folder, 0777) && errno != EEXIST)
        status = mr_file_fail("make the folder", of->folder);
    return status ? status : writers[of->target](of);
}

void mr_deploy_fini(mr_deployment *of) {
    for (size_t i = 0; of->written && i < of->written->count; i++)
        free(of->written->path[i]);
    if (of->written)
        mr_free(of->written->path);
    free(of->written);
    free(of->name);
    for (size_t i = 0; i < sizeof of->owned / sizeof *of->owned; i++)
        free(of->owned[i]);
    mr_plan_view_close(&of->plan);
    *of = (mr_deployment){0};
}

/* ---- the plan -------------------------------------------------------------------------------------------------- */

/* Does not apply to a `video` that sends to an address. */
static bool writes_files(const mr_view_stage *stage) {
    const mr_option *folder = stage->type->options;
    while (folder->name && folder->file != MR_FILE_FOLDER)
        folder++;
    return folder->name && mr_option_string(folder, stage->options);
}

static void warn_of_file(const mr_view_stage *stage, const mr_option *option, mr_diagnostics *wrong) {
    const bool is_file = option->file == MR_FILE_WRITTEN;
    const bool names = is_file || (option->file == MR_FILE_NAME && writes_files(stage));
    const char *name = names ? mr_option_string(option, stage->options) : NULL;
    /* A playlist names only the newest files. */
    if (!name || strcmp(name, "-") == 0 || strstr(name, "{time}") || strstr(name, "{number}") || strstr(name, ".m3u8"))
        return;
    mr_diagnose(wrong, MR_SEVERITY_WARNING, MR_OK, (mr_location){.file = stage->place},
                "put {time} into the name, such as {source}-{time}.mp4, rows-{time}.jsonl or {time}-{seq}.jpg",
                is_file ? "stages.%s.%s: each start of the service empties \"%s\""
                        : "stages.%s.%s: files named \"%s\" are replaced or refused if the service starts again",
                stage->id, option->name, name);
}

/* A service that reads cameras restarts after each reboot. */
static void warn_of_files(const mr_plan_view *plan, mr_diagnostics *wrong) {
    bool endless = false;
    for (size_t s = 0; s < plan->stage_count; s++)
        endless |= plan->stages[s].offer.endless;
    for (size_t s = 0; s < plan->stage_count && endless; s++)
        for (const mr_option *option = plan->stages[s].type->options; option && option->name; option++)
            warn_of_file(&plan->stages[s], option, wrong);
}

/* Units may be written on another machine than they run on, so what is missing here is no error. */
static void warn_of_missing(const mr_plan_view *plan, mr_diagnostics *wrong) {
    for (size_t s = 0; s < plan->stage_count; s++) {
        const mr_view_stage *stage = &plan->stages[s];
        for (const mr_option *option = stage->type->options; option && option->name; option++) {
            const bool read = option->file == MR_FILE_READ && !option->searched;
            const char *path = read ? mr_option_string(option, stage->options) : NULL;
            if (path && !strstr(path, "://") && strcmp(path, "-") && !path[strcspn(path, "*?[")] &&
                access(path, F_OK) && (errno == ENOENT || errno == ENOTDIR))
                mr_diagnose(wrong, MR_SEVERITY_WARNING, MR_OK, (mr_location){.file = stage->place},
                            "the service ends at its start where this is missing; `millrace plan` tells what helps",
                            "%s.%s.%s: there is no \"%s\" here",
                            stage->role == MR_VIEW_SOURCE ? "sources" : "stages", stage->id, option->name, path);
        }
    }
}

/* Plans only the text: neither the machines nor their files are known yet. */
int mr_deploy_prepare(mr_deployment *of) {
    static const char *const somewhere[] = {"host"};
    mr_diagnostics wrong = {0};
    mr_pipeline_params params = {.path = of->path, .offline = true, .cuts = true,
                                 .host_count = 1, .hosts = somewhere};
    mr_overrides_apply(of->overrides, &params);
    int status = mr_plan_view_open(&of->plan, &params, &wrong);
    if (!status && of->target == MR_DEPLOY_SYSTEMD) {
        warn_of_files(of->plan, &wrong);
        warn_of_missing(of->plan, &wrong);
    }
    status = mr_complaints_tell(&wrong, status, false);
    mr_diagnostics_fini(&wrong);
    if (status)
        return mr_status_exit_code(status);
    status = find_names(of);
    return status ? mr_command_failed(status) : 0;
}
