/* millrace deploy: writes what Slurm, Kubernetes or systemd need to run a pipeline's nodes. */
#include "tools/millrace/deploy.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/flow/pipeline.h"
#include "tools/millrace/complaints.h"
#include "tools/millrace/plan.h"

enum { TARGET = 256, FOLDER, IMAGE, COMMAND };

static const struct option options[] = {
    MR_OVERRIDE_INPUTS,
    {"target", required_argument, NULL, TARGET},
    {"output", required_argument, NULL, FOLDER},
    {"image", required_argument, NULL, IMAGE},
    {"command", required_argument, NULL, COMMAND},
    MR_USAGE_COMMON,
};

static const char *const examples[] = {
    "pipeline.yaml --target systemd --output units",
    "pipeline.yaml --target kubernetes --image example/millrace:1 --output manifests", NULL};

static const mr_usage usage = {
    .verb = "deploy",
    .synopsis = "PIPELINE.yaml --target slurm|kubernetes|systemd [--output FOLDER] [--image IMAGE]\n"
                "                       [--command PATH] [--set KEY=VALUE]... [--input URI]...",
    .help = "Writes what runs the nodes of a pipeline where others start processes: a batch script for sbatch,\n"
            "manifests for kubectl, or units for systemctl. Nothing is started.\n\n"
            "  --target NAME      slurm, kubernetes or systemd\n"
            "  --output FOLDER    where files go; without it the working directory\n"
            "  --image IMAGE      kubernetes: the container image that holds millrace; millrace:VERSION unless said\n"
            "  --command PATH     slurm, systemd: millrace on the machines where it will run; this one unless said\n"
            MR_OVERRIDE_INPUTS_HELP,
    .options = options,
    .examples = examples,
};

typedef struct target {
    const char *name;
    int (*write)(const mr_deployment *of);
} target;

static const target targets[] = {
    {"slurm", mr_deploy_slurm}, {"kubernetes", mr_deploy_kubernetes}, {"systemd", mr_deploy_systemd}, {0}};

typedef struct arguments {
    const char *path;
    const target *target;
    mr_deployment of;
    mr_overrides overrides;
} arguments;

/* ---- for those that write -------------------------------------------------------------------------------------- */

FILE *mr_deploy_open(const mr_deployment *of, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", of->folder, name);
    FILE *file = fopen(path, "we");
    if (file)
        printf("%s\n", path);
    else
        mr_fail(errno == EACCES ? MR_ERROR_PERMISSION : MR_ERROR_IO, "cannot write %s: %s", path, strerror(errno));
    return file;
}

int mr_deploy_close(FILE *file, const char *name) {
    bool failed = ferror(file) != 0;
    if (fclose(file) || failed)
        return mr_fail(MR_ERROR_IO, "cannot write %s: %s", name, strerror(errno));
    return MR_OK;
}

void mr_deploy_words(const mr_deployment *of, const char *path, mr_deploy_word *function, void *context) {
    char text[8192];
    const mr_overrides *overrides = of->overrides;
    function(context, "run");
    function(context, path);
    for (size_t i = 0; i < overrides->override_count; i++) {
        snprintf(text, sizeof text, "%s=%s", overrides->override[i].key, overrides->override[i].value);
        function(context, "--set");
        function(context, text);
    }
    for (size_t i = 0; i < overrides->input_count; i++) {
        function(context, "--input");
        function(context, overrides->input[i]);
    }
}

int mr_deploy_gpus(const mr_plan *plan, int node) {
    int count = 0;
    for (size_t d = 1; d < plan->device_count; d++)
        count += strncmp(plan->devices[d].name, "cuda:", 5) == 0 && mr_plan_node_uses(plan, node, (int)d);
    return count;
}

/* ---- the command line ------------------------------------------------------------------------------------------ */

/* Answers an exit code. */
static int take_option(arguments *to, int option) {
    int code = 0;
    if (mr_overrides_take(&to->overrides, &usage, option, &code))
        return code;
    switch (option) {
    case TARGET:
        for (to->target = targets; to->target->name && strcmp(to->target->name, optarg) != 0;)
            to->target++;
        if (!to->target->name)
            return mr_usage_error(&usage, "--target is slurm, kubernetes or systemd, not \"%s\"", optarg);
        return 0;
    case FOLDER:
        to->of.folder = optarg;
        return 0;
    case IMAGE:
        to->of.image = optarg;
        return 0;
    default:
        to->of.command = optarg;
        return 0;
    }
}

/* Answers an exit code; *done where the command is over. */
static int parse(arguments *to, int argc, char **argv, bool *done) {
    int code = 0, got;
    *done = true;
    while ((got = mr_usage_next(&usage, argc, argv, &code)) != -1) {
        if (got != MR_USAGE_EXIT)
            code = take_option(to, got);
        if (got == MR_USAGE_EXIT || code)
            return code;
    }
    if (optind + 1 != argc)
        return mr_usage_error(&usage, optind == argc ? "name a pipeline" : "one pipeline at a time");
    if (!to->target)
        return mr_usage_error(&usage, "say who runs it: --target slurm, kubernetes or systemd");
    to->path = argv[optind];
    *done = false;
    return 0;
}

/* ---- together -------------------------------------------------------------------------------------------------- */

/* Host names, units and jobs may be called so. */
static char *plain_name(const char *name) {
    char *plain = strdup(*name ? name : "pipeline");
    for (char *at = plain; at && *at; at++)
        *at = isalnum((unsigned char)*at) ? (char)tolower((unsigned char)*at) : '-';
    return plain;
}

static int number_run(mr_deployment *of) {
    uint64_t run;
    if (getrandom(&run, sizeof run, 0) != (ssize_t)sizeof run)
        return mr_fail(MR_ERROR_INTERNAL, "no random number for the run: %s", strerror(errno));
    snprintf(of->run, sizeof of->run, "%016llx", (unsigned long long)run);
    return MR_OK;
}

static int write_all(arguments *from, const mr_plan *plan) {
    mr_deployment *of = &from->of;
    char *name = plain_name(plan->name), *path = realpath(from->path, NULL), *self = realpath("/proc/self/exe", NULL);
    char image[64];
    snprintf(image, sizeof image, "millrace:%s", mr_version());
    of->plan = plan;
    of->overrides = &from->overrides;
    of->name = name;
    of->path = path;
    of->command = of->command ? of->command : self;
    of->image = of->image ? of->image : image;
    of->folder = of->folder ? of->folder : ".";
    int status = name && path && of->command ? number_run(of) : mr_fail(MR_ERROR_MEMORY, "no memory for a deployment");
    if (!status && plan->node_count == 0)
        status = mr_fail(MR_ERROR_CONFIG, "%s has no nodes: add `nodes:` to say which process runs what", from->path);
    if (!status && mkdir(of->folder, 0777) && errno != EEXIST)
        status = mr_fail(MR_ERROR_IO, "cannot make the folder %s: %s", of->folder, strerror(errno));
    if (!status)
        status = from->target->write(of);
    free(name);
    free(path);
    free(self);
    return status;
}

/* The machines are not known yet, and neither are the files there: what is planned is the text alone. */
static int deploy(arguments *from) {
    static const char *const somewhere[] = {"host"};
    mr_plan *plan = NULL;
    mr_diagnostics wrong = {0};
    mr_pipeline_params params = {.types = mr_stage_types(), .path = from->path, .offline = true, .cuts = true,
                                 .host_count = 1, .hosts = somewhere};
    mr_overrides_apply(&from->overrides, &params);
    int status = mr_complaints_tell(&wrong, mr_pipeline_plan(&plan, &params, &wrong), false);
    mr_diagnostics_fini(&wrong);
    int code = mr_status_exit_code(status);
    if (!status && (status = write_all(from, plan)))
        code = mr_command_failed(status);
    mr_plan_destroy(&plan);
    return code;
}

int mr_command_deploy(int argc, char **argv) {
    arguments given = {0};
    bool done = true;
    if (mr_overrides_init(&given.overrides, argc))
        return mr_command_failed(MR_ERROR_MEMORY);
    int code = parse(&given, argc, argv, &done);
    if (!done && strcmp(given.path, "-") == 0)
        code = mr_usage_error(&usage, "each node reads the pipeline: write it to a file");
    else if (!done)
        code = deploy(&given);
    mr_overrides_fini(&given.overrides);
    return code || done ? code : mr_flush_stdout();
}
