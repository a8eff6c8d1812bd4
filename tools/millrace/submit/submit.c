/* millrace submit: hands a pipeline over to Slurm, Kubernetes or systemd. */
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/memory.h"
#include "engine/base/print.h"
#include "engine/base/temp_folder.h"
#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/deploy/deploy_make.h"
#include "tools/millrace/submit/sites.h"
#include "tools/millrace/submit/store.h"
#include "tools/millrace/submit/watch.h"

#define KEPT_NS (INT64_C(30) * 24 * 3600 * 1000000000) /* how long an ended one is remembered */

typedef struct arguments {
    mr_deployment of;
    mr_overrides overrides;
    mr_words options; /* for the site's program, as they were given */
    const char *resume;
    bool dry_run, wait, json;
} arguments;

static const mr_usage_option options[] = {
    MR_DEPLOY_OPTIONS,
    MR_OPTION("target-option", "KEY[=VALUE]", arguments, options,
              "passes --KEY=VALUE to sbatch, kubectl or systemctl: partition=short, time=2:00:00, namespace=video, "
              "user"),
    MR_OPTION("resume", "ID", arguments, resume,
              "slurm: continues at the checkpoints of an earlier submission, which was cancelled or has failed"),
    MR_OPTION("dry-run", NULL, arguments, dry_run,
              "prints what would be handed over, except values of variables, and hands over nothing"),
    MR_OPTION("wait", NULL, arguments, wait,
              "waits for the end, and exits with the pipeline's exit code, or with 75 if it was cancelled. Ending this "
              "command does not end the job"),
    MR_OPTION("json", NULL, arguments, json, "prints its JSON object from `status --json` instead of the id"),
    MR_USAGE_COMMON,
};

static const char *const examples[] = {
    "pipeline.yaml --target slurm --target-option partition=short --target-option time=2:00:00 --wait",
    "pipeline.yaml --target kubernetes --image example/millrace:1 --target-option namespace=video",
    "pipeline.yaml --target systemd --dry-run", NULL};

static const mr_usage usage = {
    .verb = "submit",
    .synopsis = "PIPELINE.yaml",
    .help = "Checks and plans a pipeline, writes the files that `deploy` writes, and hands them over: to Slurm by "
            "sbatch, to Kubernetes by `kubectl apply`, to systemd by `systemctl link` and `start`. Prints an id for "
            "`status` and `cancel`. The pipeline's file is read again when the job starts.\n"
            "Variables that the pipeline names come from this command's environment: sbatch passes it on, and units "
            "have NAME.env. Pods take them from a Secret NAME-environment, if there is one.",
    .options = options,
    .examples = examples,
};

/* ---- checks ---------------------------------------------------------------------------------------------------- */

static bool is_among(const char *const *keys, const char *option) {
    const size_t length = strcspn(option, "=");
    for (; *keys; keys++)
        if (strlen(*keys) == length && strncmp(*keys, option, length) == 0)
            return true;
    return false;
}

/* Returns an exit code. */
static int check_options(const mr_submission *one, const mr_words *given) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    const mr_site *site = mr_site_of(one);
    for (size_t i = 0; i < given->count; i++) {
        const char *option = given->item[i];
        const size_t length = strspn(option, letters);
        if (!length || *option == '-' || (option[length] && option[length] != '=') || !mr_printable(option))
            return mr_usage_error(&usage, "--target-option takes an option's long name without dashes, and its value, "
                                          "such as partition=short, not \"%s\"", option);
        if (is_among(site->refused, option) || (one->target == MR_DEPLOY_SYSTEMD && !is_among(site->kept, option)))
            return mr_usage_error(&usage, "--target-option %.*s is not for `submit`: it would hand over something "
                                          "else, or show a secret to others", (int)length, option);
    }
    return 0;
}

/* A variable's name is no secret. */
static int check_secret(const char *option, const char *text) {
    if (!mr_deploy_shows_secret(text))
        return MR_OK;
    return mr_fail(MR_ERROR_USAGE, "%s has a user or a password, which would be copied into the files: name a variable "
                                   "in the pipeline, such as ${CAMERA}, and set it in the environment", option);
}

static int check_secrets(const mr_deployment *of) {
    const mr_overrides *overrides = of->overrides;
    int status = MR_OK;
    for (size_t i = 0; i < overrides->override_count && !status; i++)
        status = check_secret("--set", overrides->override[i].value);
    for (size_t i = 0; i < overrides->inputs.count && !status; i++)
        status = check_secret("--input", overrides->inputs.item[i]);
    for (char *const *word = of->words; *word && !status; word++)
        status = check_secret("a word after \"--\"", *word);
    return status;
}

/* ---- earlier submissions --------------------------------------------------------------------------------------- */

/* Objects and units with a name exist once. An ended submission is removed there; any other keeps its name. */
static int free_name(mr_submission *old, const mr_submission *one) {
    if (!mr_site_same(old, one) || old->cancelled || strcmp(old->name, one->name) != 0 ||
        one->target == MR_DEPLOY_SLURM)
        return MR_OK;
    int status = mr_submission_refresh(old);
    if (status)
        return status;
    if (old->job.state == MR_JOB_QUEUED || old->job.state == MR_JOB_RUNNING)
        return mr_fail(MR_ERROR_AGAIN, "%s is %s: `millrace cancel %s` ends it, and --set pipeline=NAME gives this "
                                       "pipeline another name", old->id, mr_job_word((int)old->job.state), old->id);
    status = mr_site_of(old)->cancel(old);
    old->cancelled = true;
    return status ? status : mr_store_write(old);
}

/* Objects and units that are still at the site keep it remembered, as does a site that cannot be asked. What a site has
 * forgotten may just have ended. */
static void forget(mr_submission *old, int64_t now) {
    const bool gone = old->target == MR_DEPLOY_SLURM || old->cancelled;
    if (!gone || mr_submission_refresh(old) || old->job.state == MR_JOB_QUEUED || old->job.state == MR_JOB_RUNNING)
        return;
    if (!old->ended_ns && !mr_job_is_over(old->job.state)) {
        old->ended_ns = now;
        if (mr_store_write(old)) /* the next `submit` does it */
            mr_print(stderr, "millrace: warning: %s\n", mr_message());
    } else if (now - (old->ended_ns ? old->ended_ns : old->submitted_ns) > KEPT_NS)
        mr_store_remove(old);
}

/* `resumed` is kept; NULL: none. */
static int look_back(const mr_submissions *all, const mr_submission *one, const mr_submission *resumed) {
    int status = MR_OK;
    for (size_t i = 0; i < all->count && !status; i++) {
        mr_submission *old = &all->item[i];
        status = free_name(old, one);
        if (!status && old != resumed && one->submitted_ns - old->submitted_ns > KEPT_NS)
            forget(old, one->submitted_ns);
    }
    return status;
}

/* Moves the checkpoints, which then belong to the new submission. */
static int take_checkpoints(mr_submission *old, const char *to, char from[PATH_MAX + 16]) {
    int status = mr_submission_refresh(old);
    if (status)
        return status;
    if (old->target != MR_DEPLOY_SLURM || !(mr_job_is_over(old->job.state) || old->job.state == MR_JOB_UNKNOWN))
        return mr_fail(MR_ERROR_USAGE, "--resume continues a submission to Slurm that is over: %s is %s", old->id,
                       mr_job_word((int)old->job.state));
    snprintf(from, PATH_MAX + 16, "%s/checkpoints", old->folder);
    if (access(from, F_OK))
        return mr_fail(MR_ERROR_NO_INPUT, "%s has no checkpoints: it has ended, has not begun, or continues elsewhere",
                       old->id);
    return rename(from, to) ? mr_file_fail("move", from) : MR_OK;
}

/* ---- handing over ---------------------------------------------------------------------------------------------- */

typedef struct handing {
    arguments *given;
    mr_submission one;
    mr_site_words options;  /* "--partition=short" */
    char host[MR_JOB_TEXT];
    char checkpoints[PATH_MAX + 16], notes[PATH_MAX + 16], from[PATH_MAX + 16];
} handing;

static void set_folders(handing *of) {
    mr_deployment *deployment = &of->given->of;
    snprintf(of->checkpoints, sizeof of->checkpoints, "%s/checkpoints", of->one.folder);
    snprintf(of->notes, sizeof of->notes, "%s/tasks", of->one.folder);
    deployment->folder = of->one.folder;
    deployment->checkpoints = of->checkpoints;
    deployment->notes = of->notes;
}

/* systemctl's default depends on who calls it. */
static int keep_manager(mr_submission *one) {
    bool chosen = one->target != MR_DEPLOY_SYSTEMD;
    for (size_t i = 0; i < one->options.count; i++)
        chosen |= strcmp(one->options.item[i], "--user") == 0 || strcmp(one->options.item[i], "--system") == 0;
    return chosen ? MR_OK : mr_words_add(&one->options, geteuid() ? "--user" : "--system");
}

/* Those that later calls need, too. */
static int keep_options(handing *of) {
    const mr_words *given = &of->given->options;
    int status = of->options.failed ? MR_ERROR_MEMORY : MR_OK;
    for (size_t i = 0; i < given->count && !status; i++)
        if (is_among(mr_site_of(&of->one)->kept, given->item[i]))
            status = mr_words_add(&of->one.options, of->options.words.item[i]);
    return status ? status : keep_manager(&of->one);
}

static int begin(handing *of, const mr_submissions *all) {
    arguments *given = of->given;
    mr_submission *one = &of->one, *resumed = NULL;
    int status = keep_options(of);
    if (!status && given->resume)
        status = mr_store_find(all, given->resume, &resumed);
    if (!status)
        status = look_back(all, one, resumed);
    if (!status)
        status = mr_store_make(one, one->name);
    if (status)
        return status;
    set_folders(of);
    if (resumed)
        status = take_checkpoints(resumed, of->checkpoints, of->from);
    /* A job gets sbatch's mask. */
    const mode_t before = umask(077);
    if (!status)
        status = mr_deploy_write(&given->of);
    umask(before);
    for (size_t i = 0; i < given->of.written->count && !status; i++)
        status = mr_words_add(&one->files, given->of.written->path[i]);
    if (!status)
        status = mr_store_write(one);
    if (!status)
        status = mr_site_of(one)->hand_over(one, &of->options.words);
    if (status)
        return status;
    status = mr_store_write(one);
    return status ? mr_site_withdraw(one, status) : MR_OK;
}

/* Something may run at the site: it keeps its folder, for `status` and `cancel`. */
static int keep(const mr_submission *one, int status) {
    char why[1024];
    snprintf(why, sizeof why, "%s", mr_message());
    if (mr_store_write(one))
        return mr_fail(status, "%s; it may run, with the folder %s", why, one->folder);
    return mr_fail(status, "%s; it may run: see `millrace status %s`", why, one->id);
}

/* A refused submission leaves nothing. */
static void undo(const handing *of) {
    if (*of->from)
        rename(of->checkpoints, of->from);
    mr_store_remove(&of->one);
}

static int hand_over(handing *of) {
    mr_submissions all = {0};
    sigset_t signals;
    int lock, status = mr_store_lock(&lock);
    if (status)
        return status;
    mr_store_hold_signals(&signals);
    status = mr_store_list(&all);
    if (!status)
        status = begin(of, &all);
    if (status && of->one.left)
        status = keep(&of->one, status);
    else if (status)
        undo(of);
    mr_submissions_fini(&all);
    mr_store_unlock(lock);
    mr_store_let_signals(&signals);
    return status;
}

/* ---- telling --------------------------------------------------------------------------------------------------- */

/* User services end with the last session of their user, unless they may linger. */
static void warn_of_logout(const mr_submission *one) {
    char path[PATH_MAX];
    const struct passwd *user = getpwuid(geteuid());
    snprintf(path, sizeof path, "/var/lib/systemd/linger/%s", user ? user->pw_name : "");
    if (one->target == MR_DEPLOY_SYSTEMD && geteuid() && access(path, F_OK))
        mr_print(stderr, "millrace: warning: your services end when you log out: `loginctl enable-linger` keeps "
                         "them\n");
}

/* Returns an exit code. */
static int tell(handing *of) {
    const arguments *given = of->given;
    mr_submission *one = &of->one;
    int code = 0;
    if (!given->json) {
        mr_print(stdout, "%s\n", one->id);
        fflush(stdout);
    }
    warn_of_logout(one);
    if (given->wait)
        code = mr_submission_follow(one);
    else if (mr_submission_refresh(one))
        mr_print(stderr, "millrace: warning: %s\n", mr_message());
    else {
        mr_print(stderr, "%s: ", one->site_id);
        mr_job_print(&one->job, stderr);
        fputc('\n', stderr);
    }
    yajl_gen json = given->json ? mr_json_create(true) : NULL;
    if (json)
        mr_submission_put(json, one);
    const int status = json ? mr_json_finish(json, stdout) : given->json ? MR_ERROR_MEMORY : MR_OK;
    if (status)
        return mr_command_failed(status);
    const int flushed = mr_flush_stdout();
    return flushed ? flushed : code;
}

static int print_file(const char *path) {
    enum { MOST_BYTES = 64 << 20 };
    mr_file_bytes text = {0};
    const char *dot = strrchr(path, '.');
    if (dot && strcmp(dot, ".env") == 0)
        return MR_OK;
    int status = mr_file_read("the file", path, MOST_BYTES, 0, &text);
    fwrite(text.data, 1, text.bytes, stdout);
    mr_free(text.data);
    return status;
}

/* The folders in a script are those that a submission would have. */
static int print_files(handing *of) {
    mr_deployment *deployment = &of->given->of;
    mr_temp_folder temp;
    int status = mr_store_choose(&of->one, of->one.name);
    if (!status)
        status = mr_temp_folder_make(&temp, NULL);
    if (status)
        return status;
    set_folders(of);
    deployment->folder = temp.folder;
    status = mr_deploy_write(deployment);
    for (size_t i = 0; i < deployment->written->count && !status; i++)
        status = print_file(deployment->written->path[i]);
    mr_temp_folder_remove(&temp);
    return status;
}

/* ---- together -------------------------------------------------------------------------------------------------- */

/* Returns an exit code. */
static int submit(handing *of) {
    arguments *given = of->given;
    int code = mr_deploy_prepare(&given->of);
    if (code)
        return code;
    int status = mr_submission_init(&of->one, &given->of);
    if (gethostname(of->host, sizeof of->host - 1))
        *of->host = 0;
    of->one.host = of->host;
    for (size_t i = 0; i < given->options.count; i++)
        mr_site_add(&of->options, "--%s", given->options.item[i]);
    if (!status && (code = check_options(&of->one, &given->options)))
        return code;
    if (!status)
        status = check_secrets(&given->of);
    if (!status)
        status = given->dry_run ? print_files(of) : hand_over(of);
    if (status)
        return mr_command_failed(status);
    return given->dry_run ? mr_flush_stdout() : tell(of);
}

/* Returns an exit code. */
static int check(const arguments *given) {
    if (given->resume && (given->of.target != MR_DEPLOY_SLURM || given->of.trains))
        return mr_usage_error(&usage, "--resume is for a run under Slurm; services and pods continue by themselves, "
                                      "and a training takes `-- --resume`");
    if (given->dry_run && (given->wait || given->json || given->resume))
        return mr_usage_error(&usage, "--dry-run hands over nothing: --wait, --json and --resume do not go with it");
    return 0;
}

static int run_verb(int argc, char **argv) {
    arguments given = {.of.target = MR_DEPLOY_TARGETS, .overrides.no_plugins = true};
    handing of = {.given = &given};
    int code = 0;
    if (mr_usage_take(&usage, argc, argv, &given, &code) &&
        !(code = mr_deploy_take_words(&usage, &given.of, &given.overrides, argc, argv)) && !(code = check(&given)))
        code = submit(&of);
    mr_submission_fini(&of.one);
    mr_site_words_fini(&of.options);
    mr_deploy_fini(&given.of);
    mr_words_fini(&given.options);
    mr_overrides_fini(&given.overrides);
    return code;
}

const mr_verb mr_submit_verb = {&usage, "hand a pipeline over to Slurm, Kubernetes or systemd", run_verb};
