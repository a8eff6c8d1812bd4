/* Any bytes as answers of Slurm's, Kubernetes' and systemd's programs, and as the record of a submission. Nothing may
 * crash or leak, every refusal must have a reason, and states must be known ones. The first byte chooses.
 *
 *     tests/fuzz/run 60 fuzz_sites */
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "millrace/status.h"
#include "tests/fuzz/fuzz.h"
#include "tools/millrace/submit/sites.h"

static void check(const mr_job *job) {
    fault_if(!mr_job_word((int)job->state) || job->code < -1);
    fault_if(!memchr(job->why, 0, sizeof job->why) || !memchr(job->hosts, 0, sizeof job->hosts));
    for (size_t i = 0; i < job->count; i++)
        fault_if(!mr_job_word((int)job->process[i].state) || !memchr(job->process[i].host, 0, MR_JOB_TEXT) ||
                 !memchr(job->process[i].why, 0, MR_JOB_TEXT));
}

static void read_answer(mr_deploy_target target, char *answer) {
    mr_job_process process[] = {{.node = "camera"}, {.node = "worker"}, {.node = "worker", .replica = 1}};
    const mr_submission one = {.target = target, .name = "three", .run = "1", .host = "here",
                               .job = {.count = 3, .process = process}};
    mr_job job;
    fault_if(mr_job_blank(&one.job, &job) != MR_OK);
    fuzz_expect_reason(mr_site_of(&one)->read(&one, answer, &job));
    check(&job);
    free(job.process);
}

/* A record that was read is written, and read again, as it was. */
static void read_record(const char *text) {
    mr_submission one = {.folder = "/x"}, again = {.folder = "/x"};
    size_t bytes;
    const int status = mr_submission_parse(&one, text);
    fuzz_expect_reason(status);
    if (status)
        return;
    check(&one.job);
    yajl_gen json = mr_json_create(false);
    mr_submission_put(json, &one);
    char *written = mr_json_finish_text(json, &bytes);
    fault_if(!written || mr_submission_parse(&again, written));
    fault_if(again.job.count != one.job.count || again.job.state != one.job.state || again.target != one.target);
    free(written);
    mr_submission_fini(&one);
    mr_submission_fini(&again);
}

FUZZ(data, bytes) {
    if (!bytes)
        return;
    char *text = (char *)fuzz_copy(data + 1, bytes - 1, 1);
    const int which = data[0] % (MR_DEPLOY_TARGETS + 1);
    if (which < MR_DEPLOY_TARGETS)
        read_answer((mr_deploy_target)which, text);
    else
        read_record(text);
    free(text);
}
