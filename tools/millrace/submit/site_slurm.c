/* Slurm: sbatch, scontrol and, for jobs that slurmctld has forgotten, sacct; scancel. Each task keeps a line in the
 * folder "tasks" (deploy_slurm.c). */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/memory.h"
#include "engine/base/print.h"
#include "tools/millrace/submit/sites.h"

enum { MOST_NAME = 256 };

static const char *const kept[] = {"clusters", NULL};
/* These would make another kind of job, or another output. */
static const char *const refused[] = {"array", "wrap", "wait", "test-only", "parsable", "help", "usage", "version",
                                      NULL};

/* Slurm replaces %x in the name of a log. */
static void add_log(mr_site_words *words, const mr_submission *one) {
    char path[2 * PATH_MAX], *to = path;
    for (const char *at = one->folder; *at; *to++ = *at++)
        if (*at == '%')
            *to++ = '%';
    *to = 0;
    mr_site_add(words, "--output=%s/log", path);
}

/* An option that needs a value takes the next word, the script's path, and sbatch reads an empty script. */
static int blame_option(int status, const mr_words *options) {
    char why[1024];
    snprintf(why, sizeof why, "%s", mr_message());
    for (size_t i = 0; i < options->count; i++)
        if (!strchr(options->item[i], '='))
            return mr_fail(MR_ERROR_USAGE, "%s; if %s needs a value, write it: --target-option %s=VALUE", why,
                           options->item[i], options->item[i] + strspn(options->item[i], "-"));
    return status;
}

/* Within a job, or in a terminal that began in one, Slurm's variables describe that job: sbatch would pass them on, and
 * srun obey them, for instance bind all tasks to the other job's cores. These are for Slurm's programs themselves. */
static void forget_outer_job(void) {
    static const char *const ours[] = {"SLURM_CONF=", "SLURM_CLUSTERS=", "SLURM_JWT=", NULL};
    for (char **at = environ; *at;) {
        char name[MOST_NAME];
        size_t own = 0;
        while (ours[own] && strncmp(*at, ours[own], strlen(ours[own])) != 0)
            own++;
        const size_t length = strcspn(*at, "=");
        snprintf(name, sizeof name, "%.*s", (int)length, *at);
        if (ours[own] || strncmp(name, "SLURM_", 6) != 0 || length >= sizeof name || unsetenv(name))
            at++; /* otherwise the next variable is here now */
    }
}

static int hand_over(mr_submission *one, const mr_words *options) {
    mr_site_words words = {0};
    char *out;
    if (strchr(one->folder, '\\'))
        return mr_fail(MR_ERROR_USAGE, "%s: Slurm removes the \\ from the name of the log: name another folder with "
                       "XDG_STATE_HOME", one->folder);
    forget_outer_job();
    mr_site_add(&words, "sbatch");
    mr_site_add(&words, "--parsable");
    mr_site_add(&words, "--open-mode=append");
    add_log(&words, one);
    mr_site_add_all(&words, options);
    mr_site_add(&words, "%s", one->files.item[0]);
    int status = mr_site_call(one, &words, &out);
    one->left = words.doubtful;
    if (status)
        return blame_option(status, options);
    /* "4711" or "4711;cluster" */
    const size_t digits = strspn(out, "0123456789");
    if (digits && digits < 20 && strchr(";\n", out[digits]))
        snprintf(one->site_id, sizeof one->site_id, "%.*s", (int)digits, out);
    else {
        one->left = true;
        status = mr_fail(MR_ERROR_PROTOCOL, "sbatch prints no job's number, but: %.*s", (int)strcspn(out, "\n"), out);
    }
    mr_free(out);
    return status;
}

/* ---- the job --------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *why;
    mr_job_state state;
} states[] = {
    {"COMPLETED", "", MR_JOB_ENDED},
    {"CANCELLED", "", MR_JOB_CANCELLED},
    {"FAILED", "", MR_JOB_FAILED},
    {"TIMEOUT", "the time limit was reached", MR_JOB_FAILED},
    {"DEADLINE", "the deadline was reached", MR_JOB_FAILED},
    {"NODE_FAIL", "a machine has failed", MR_JOB_FAILED},
    {"BOOT_FAIL", "a machine does not boot", MR_JOB_FAILED},
    {"OUT_OF_MEMORY", "out of memory", MR_JOB_FAILED},
    {"PREEMPTED", "another job took the machines", MR_JOB_FAILED},
    {"REVOKED", "another cluster runs it", MR_JOB_FAILED},
    {"RUNNING", "", MR_JOB_RUNNING},
    {"COMPLETING", "", MR_JOB_RUNNING},
    {"SUSPENDED", "suspended", MR_JOB_RUNNING},
    {"STOPPED", "stopped", MR_JOB_RUNNING},
    {"SIGNALING", "", MR_JOB_RUNNING},
    {"STAGE_OUT", "", MR_JOB_RUNNING},
    {"PENDING", "", MR_JOB_QUEUED},
    {"CONFIGURING", "the machines boot", MR_JOB_QUEUED},
    {"REQUEUED", "queued again", MR_JOB_QUEUED},
    {"REQUEUE_FED", "queued again", MR_JOB_QUEUED},
    {"REQUEUE_HOLD", "queued again, and held", MR_JOB_QUEUED},
    {"SPECIAL_EXIT", "queued again, and held", MR_JOB_QUEUED},
    {"RESV_DEL_HOLD", "held", MR_JOB_QUEUED},
};

static void set_state(mr_job *job, const char *name, const char *reason) {
    const char *why = "";
    job->state = MR_JOB_UNKNOWN;
    for (size_t i = 0; i < sizeof states / sizeof *states && job->state == MR_JOB_UNKNOWN; i++) {
        /* sacct: "CANCELLED by 1000" */
        const size_t length = strlen(states[i].name);
        if (strncmp(name, states[i].name, length) == 0 && !isalpha((unsigned char)name[length]) &&
            name[length] != '_') {
            job->state = states[i].state;
            why = states[i].why;
        }
    }
    if (job->state == MR_JOB_UNKNOWN)
        mr_print_into(job->why, sizeof job->why, "Slurm's state %s", name);
    else if (*why || strcmp(reason, "None") == 0)
        snprintf(job->why, sizeof job->why, "%s", why);
    else if (job->state != MR_JOB_ENDED)
        mr_print_into(job->why, sizeof job->why, "%s", reason);
}

/* "74:0": exit code and signal. */
static void set_code(mr_job *job, const char *text) {
    const int code = atoi(text), signal = strchr(text, ':') ? atoi(strchr(text, ':') + 1) : 0;
    if (job->state == MR_JOB_ENDED || job->state == MR_JOB_FAILED)
        job->code = mr_job_code(code ? code : signal ? 128LL + signal : job->state == MR_JOB_ENDED ? 0 : -1);
}

/* The first field with that name in "KEY=VALUE KEY=VALUE ...", in lines: values that users write come later. */
static void find_field(const char *text, const char *key, char value[MR_JOB_TEXT]) {
    char wanted[32];
    snprintf(wanted, sizeof wanted, " %s=", key);
    const char *at = strstr(text, wanted);
    at = at ? at + strlen(wanted) : "";
    snprintf(value, MR_JOB_TEXT, "%.*s", (int)strcspn(at, " \n"), at);
    if (strcmp(value, "(null)") == 0)
        *value = 0;
}

static void read_controller(const char *text, mr_job *job) {
    char state[MR_JOB_TEXT], reason[MR_JOB_TEXT], code[MR_JOB_TEXT];
    text += strcspn(text, "\n"); /* the first line has the job's name, which may look like fields */
    find_field(text, "JobState", state);
    find_field(text, "Reason", reason);
    find_field(text, "ExitCode", code);
    find_field(text, "NodeList", job->hosts);
    set_state(job, state, reason);
    set_code(job, code);
}

/* "FAILED|74:0|n[1-3]|None" */
static int read_accounting(char *text, mr_job *job) {
    char *rest = text, *field[4];
    for (size_t i = 0; i < 4; i++)
        field[i] = rest ? strsep(&rest, "|\n") : NULL;
    if (!field[3])
        return mr_fail(MR_ERROR_PROTOCOL, "Slurm prints no job's state, but: %.60s", text);
    set_state(job, field[0], field[3]);
    set_code(job, field[1]);
    mr_print_into(job->hosts, sizeof job->hosts, "%s", field[2]);
    return MR_OK;
}

/* scontrol's answer, or sacct's, which is empty if it knows no such job. */
static int read_answer(const mr_submission *one, char *answer, mr_job *job) {
    if (strstr(answer, " JobState="))
        return read_controller(answer, job), MR_OK;
    if (*answer)
        return read_accounting(answer, job);
    job->state = MR_JOB_UNKNOWN;
    mr_print_into(job->why, sizeof job->why, "Slurm knows no such job");
    return MR_OK;
}

/* Slurm's controller forgets a job some minutes after its end. A site need not keep accounts. */
static int ask_accounting(const mr_submission *one, mr_job *job) {
    mr_site_words words = {0};
    char *out;
    mr_site_add(&words, "sacct");
    mr_site_add_all(&words, &one->options);
    mr_site_add(&words, "--jobs=%s", one->site_id);
    mr_site_add(&words, "--noheader");
    mr_site_add(&words, "--parsable2");
    mr_site_add(&words, "--allocations");
    mr_site_add(&words, "--format=State,ExitCode,NodeList,Reason");
    int status = mr_site_call(one, &words, &out);
    if (status && strstr(mr_message(), "storage is disabled")) {
        job->state = MR_JOB_UNKNOWN;
        mr_print_into(job->why, sizeof job->why, "Slurm has forgotten the job, and keeps no accounts");
        return MR_OK;
    }
    if (status)
        return status;
    status = read_answer(one, out, job);
    mr_free(out);
    return status;
}

static int ask_site(const mr_submission *one, mr_job *job) {
    mr_site_words words = {0};
    char *out;
    mr_site_add(&words, "scontrol");
    mr_site_add_all(&words, &one->options);
    mr_site_add(&words, "show");
    mr_site_add(&words, "job");
    mr_site_add(&words, "%s", one->site_id);
    int status = mr_site_call(one, &words, &out);
    if (status)
        return strstr(mr_message(), "Invalid job id") ? ask_accounting(one, job) : status;
    status = read_answer(one, out, job);
    mr_free(out);
    return status;
}

/* ---- the tasks ------------------------------------------------------------------------------------------------- */

/* "running 0 n2", "74 1 n3": state or exit code, restarts, machine. */
static void read_note(const char *note, const mr_job *job, mr_job_process *one) {
    char word[16] = "", host[MR_JOB_TEXT] = "";
    if (sscanf(note, "%15s %d %255s", word, &one->restarts, host) != 3)
        return;
    mr_print_into(one->host, sizeof one->host, "%s", host);
    if (strcmp(word, "running") != 0) {
        one->code = mr_job_code(atoi(word));
        one->state = one->code ? MR_JOB_FAILED : MR_JOB_ENDED;
    } else if (mr_job_is_over(job->state)) {
        one->state = job->state == MR_JOB_ENDED ? MR_JOB_UNKNOWN : MR_JOB_CANCELLED;
        snprintf(one->why, sizeof one->why, "ended with the job");
    } else
        one->state = job->state;
}

static void read_notes(const mr_submission *one, mr_job *job) {
    for (size_t i = 0; i < job->count; i++) {
        mr_job_process *process = &job->process[i];
        char note[MR_JOB_TEXT + 64];
        if (job->state != MR_JOB_QUEUED && mr_file_head(note, sizeof note, "%s/tasks/%zu", one->folder, i))
            read_note(note, job, process);
        else if (mr_job_is_over(job->state)) {
            process->state = MR_JOB_UNKNOWN;
            snprintf(process->why, sizeof process->why, "never seen");
        }
        /* A training's script may have the code of a task that Slurm has killed after another had failed. */
        if (job->state == MR_JOB_FAILED && process->code > 0 && process->code <= 128 && job->code > 128)
            job->code = process->code;
    }
}

static int ask(const mr_submission *one, mr_job *job) {
    if (!*one->site_id) {
        job->state = MR_JOB_UNKNOWN;
        snprintf(job->why, sizeof job->why, "submit did not learn the job's number: squeue --me shows all jobs");
        return MR_OK;
    }
    int status = ask_site(one, job);
    if (!status)
        read_notes(one, job);
    return status;
}

static int cancel(const mr_submission *one) {
    mr_site_words words = {0};
    char *out;
    if (!*one->site_id)
        return mr_fail(MR_ERROR_UNAVAILABLE, "the job's number is not known: look for it with squeue --me, and end it "
                                             "with scancel");
    mr_site_add(&words, "scancel");
    mr_site_add_all(&words, &one->options);
    mr_site_add(&words, "%s", one->site_id);
    int status = mr_site_call(one, &words, &out);
    mr_free(out);
    return status;
}

static void print_log(const mr_submission *one, FILE *to) {
    mr_print(to, "%s/log", one->folder);
}

const mr_site mr_site_slurm = {"Slurm's programs (Debian: slurm-client)", kept, refused, hand_over, ask,
                               read_answer, cancel, print_log};
