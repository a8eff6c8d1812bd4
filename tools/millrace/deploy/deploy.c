/* millrace deploy: writes files for Slurm, Kubernetes or systemd to run a pipeline's nodes. */
#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/deploy/deploy_make.h"

typedef struct arguments {
    mr_deployment of;
    mr_overrides overrides;
} arguments;

static const mr_usage_option options[] = {
    MR_OPTION("output", "FOLDER", arguments, of.folder, "the folder for the files; the working directory by default"),
    MR_DEPLOY_OPTIONS,
    MR_USAGE_COMMON,
};

static const char *const examples[] = {
    "systemd pipeline.yaml --output units",
    "pipeline.yaml --target kubernetes --image example/millrace:1 --output manifests",
    "pipeline.yaml --target slurm --train -- --data photos --output head --model perceptron", NULL};

static const mr_usage usage = {
    .verb = "deploy",
    .synopsis = "[systemd|slurm|kubernetes] PIPELINE.yaml",
    .help = "Writes files with which other programs start the nodes of a pipeline: a batch script for sbatch, "
            "manifests for kubectl, or units for systemctl. Nothing is started. A pipeline without nodes becomes one "
            "task, Job or unit.\n"
            "Units take the variables that the pipeline names, and those of millrace, from the environment of this "
            "command. They are in NAME.env, which only its owner may read. Manifests are for one run: for another run, "
            "write them again and delete the old Jobs. `submit` writes the same files and hands them over.",
    .options = options,
    .examples = examples,
};

/* Returns an exit code. */
static int deploy(mr_deployment *of) {
    const int code = mr_deploy_prepare(of);
    if (code)
        return code;
    of->folder = of->folder ? of->folder : ".";
    const int status = mr_deploy_write(of);
    for (size_t i = 0; i < of->written->count; i++)
        printf("%s\n", of->written->path[i]);
    return status ? mr_command_failed(status) : mr_flush_stdout();
}

static int run_verb(int argc, char **argv) {
    arguments given = {.of.target = MR_DEPLOY_TARGETS, .overrides.no_plugins = true};
    int code = 0;
    if (mr_usage_take(&usage, argc, argv, &given, &code) &&
        !(code = mr_deploy_take_words(&usage, &given.of, &given.overrides, argc, argv)))
        code = deploy(&given.of);
    mr_deploy_fini(&given.of);
    mr_overrides_fini(&given.overrides);
    return code;
}

const mr_verb mr_deploy_verb = {&usage, "write files that start nodes with Slurm, Kubernetes or systemd",
                                run_verb};
