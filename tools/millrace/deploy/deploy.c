/* millrace deploy: writes files for Slurm, Kubernetes or systemd to run a pipeline's nodes. */
#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/deploy/deploy_targets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "millrace/describe.h"
#include "tools/millrace/cli/complaints.h"
#include "tools/millrace/cli/plan_rows.h"
#include "tools/millrace/cli/types.h"

typedef enum target { SLURM, KUBERNETES, SYSTEMD, NO_TARGET } target;

typedef struct arguments {
    const char *path;
    target target;
    mr_deployment of;
    mr_overrides overrides;
} arguments;

/* Splits CLAIM=PATH in place. */
static int take_volume(void *to, char *text) {
    arguments *given = to;
    char *equals = strchr(text, '=');
    if (!equals || equals == text || equals[1] != '/')
        return mr_fail(MR_ERROR_USAGE, "takes a claim and an absolute path, such as photos=/data, not \"%s\"",
                       text);
    *equals = 0;
    given->of.claim = text;
    given->of.mount = equals + 1;
    return MR_OK;
}

static const mr_usage_option options[] = {
    MR_OPTION("target", "slurm|kubernetes|systemd", arguments, target, "what starts the nodes", .needed = true),
    MR_OPTION("output", "FOLDER", arguments, of.folder, "the folder for the files; the working directory by default"),
    MR_OPTION("image", "IMAGE", arguments, of.image,
              "kubernetes: the container image with millrace; millrace:VERSION by default"),
    MR_OPTION("command", "PATH", arguments, of.command,
              "slurm, systemd: the path of millrace on the machines where it will run; the path of this command by "
              "default"),
    MR_OPTION("train", NULL, arguments, of.trains,
              "slurm, kubernetes: the nodes train a classifier (millrace train) instead of a run. Options of `train` "
              "follow \"--\". All nodes must find --data and --cache under the same path"),
    MR_OPTION_CALL("volume", "CLAIM=PATH", take_volume,
                   "kubernetes: a PersistentVolumeClaim that all nodes share, and its path in them. --train keeps "
                   "data, vectors and the head there"),
    MR_OVERRIDE_INPUTS,
    MR_OVERRIDE_ALLOWING_PLUGINS,
    MR_USAGE_COMMON,
};

static const char *const examples[] = {
    "pipeline.yaml --target systemd --output units",
    "pipeline.yaml --target kubernetes --image example/millrace:1 --output manifests",
    "pipeline.yaml --target slurm --train -- --data photos --output head --model perceptron", NULL};

static const mr_usage usage = {
    .verb = "deploy",
    .synopsis = "PIPELINE.yaml",
    .help = "Writes files with which other programs start the nodes of a pipeline: a batch script for sbatch, "
            "manifests for kubectl, or units for systemctl. Nothing is started. A pipeline without nodes becomes one "
            "unit (systemd).\n"
            "Units take the variables that the pipeline names, and those of millrace, from the environment of this "
            "command. They are in NAME.env, which only its owner may read. Manifests are for one run: for another run, "
            "write them again and delete the old Jobs.",
    .options = options,
    .examples = examples,
};

static int (*const writers[])(const mr_deployment *of) = {mr_deploy_slurm, mr_deploy_kubernetes, mr_deploy_systemd};

/* ---- the command line ------------------------------------------------------------------------------------------ */

static bool has_word(const mr_deployment *of, const char *option) {
    const size_t length = strlen(option);
    for (char *const *word = of->words; *word; word++)
        if (strncmp(*word, option, length) == 0 && (!(*word)[length] || (*word)[length] == '='))
            return true;
    return false;
}

/* Returns an exit code. */
static int check_training(const arguments *from) {
    const mr_deployment *of = &from->of;
    const bool pods = from->target == KUBERNETES;
    if (of->claim && !pods)
        return mr_usage_error(&usage, "--volume is for --target kubernetes");
    if (!of->trains)
        return 0;
    if (from->target == SYSTEMD)
        return mr_usage_error(&usage, "--train is for --target slurm and kubernetes: a training is no service");
    if (from->overrides.inputs.count)
        return mr_usage_error(&usage, "--input is what a run reads; a training reads --data, after \"--\"");
    if (from->overrides.force)
        return mr_usage_error(&usage, "--force is about the head that a run takes; a training makes one");
    if (!has_word(of, "--data") || !has_word(of, "--output"))
        return mr_usage_error(&usage, "--train takes options of train after \"--\", such as -- --data photos "
                                      "--output head");
    if (pods && (!of->claim || !has_word(of, "--cache")))
        return mr_usage_error(&usage, "pods share no folder but a volume: name it (--volume CLAIM=/data), and a "
                                      "--cache in it after \"--\"");
    return 0;
}

static bool parse(arguments *to, int argc, char **argv, int *code) {
    if (!mr_usage_take(&usage, argc, argv, to, code))
        return false;
    if (optind == argc)
        *code = mr_usage_error(&usage, "name a pipeline");
    else if (optind + 1 != argc && !to->of.trains)
        *code = mr_usage_error(&usage, "one pipeline at a time");
    else if (to->target == NO_TARGET)
        *code = mr_usage_error(&usage, "name the target: --target slurm, kubernetes or systemd");
    else if (strcmp(argv[optind], "-") == 0)
        *code = mr_usage_error(&usage, "each node reads the pipeline: save it to a file");
    if (*code)
        return false;
    to->path = argv[optind];
    to->of.words = argv + optind + 1;
    *code = check_training(to);
    return !*code;
}

/* ---- together -------------------------------------------------------------------------------------------------- */

static int number_run(mr_deployment *of) {
    uint64_t run;
    if (getrandom(&run, sizeof run, 0) != (ssize_t)sizeof run)
        return mr_fail(MR_ERROR_INTERNAL, "no random number for the run: %s", strerror(errno));
    snprintf(of->run, sizeof of->run, "%016llx", (unsigned long long)run);
    return MR_OK;
}

static int write_files(const arguments *from) {
    const mr_deployment *of = &from->of;
    if (of->plan->node_count == 0 && from->target != SYSTEMD)
        return mr_fail(MR_ERROR_CONFIG, "%s has no nodes: add `nodes:`, which assigns stages to processes, or write a "
                                        "unit for one process: --target systemd", from->path);
    int status = mr_deploy_check(of);
    if (!status && mkdir(of->folder, 0777) && errno != EEXIST)
        status = mr_file_fail("make the folder", of->folder);
    return status ? status : writers[from->target](of);
}

static int write_all(arguments *from, const mr_plan_view *plan) {
    mr_deployment *of = &from->of;
    char *name = mr_deploy_name(plan->name), *path = realpath(from->path, NULL), *image = NULL;
    char *self = realpath("/proc/self/exe", NULL);
    of->plan = plan;
    of->overrides = &from->overrides;
    of->name = name;
    of->path = path;
    of->command = of->command ? of->command : self;
    if (!of->image && asprintf(&image, "millrace:%s", mr_version()) >= 0)
        of->image = image;
    of->folder = of->folder ? of->folder : ".";
    bool made = name && path && of->command && of->image;
    int status = made ? number_run(of) : mr_fail(MR_ERROR_MEMORY, "no memory for a deployment");
    if (!status)
        status = write_files(from);
    free(name);
    free(path);
    free(self);
    free(image);
    return status;
}

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

/* Plans only the text: neither the machines nor their files are known yet. */
static int deploy(arguments *from) {
    static const char *const somewhere[] = {"host"};
    const mr_plan_view *plan = NULL;
    mr_diagnostics wrong = {0};
    mr_pipeline_params params = {.path = from->path, .offline = true, .cuts = true,
                                 .host_count = 1, .hosts = somewhere};
    mr_overrides_apply(&from->overrides, &params);
    int status = mr_plan_view_open(&plan, &params, &wrong);
    if (!status && from->target == SYSTEMD)
        warn_of_files(plan, &wrong);
    status = mr_complaints_tell(&wrong, status, false);
    mr_diagnostics_fini(&wrong);
    int code = mr_status_exit_code(status);
    if (!status && (status = write_all(from, plan)))
        code = mr_command_failed(status);
    mr_plan_view_close(&plan);
    return code;
}

static int run_verb(int argc, char **argv) {
    arguments given = {.target = NO_TARGET, .overrides.no_plugins = true};
    int code = 0;
    const bool goes_on = parse(&given, argc, argv, &code);
    if (goes_on)
        code = deploy(&given);
    mr_overrides_fini(&given.overrides);
    return code || !goes_on ? code : mr_flush_stdout();
}

const mr_verb mr_deploy_verb = {&usage, "write files that start nodes with Slurm, Kubernetes or systemd",
                                run_verb};
