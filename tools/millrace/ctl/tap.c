/* millrace tap: prints frames that pass a stage of a run. */
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <yajl/yajl_tree.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "tools/millrace/cli/command.h"
#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/ctl/client.h"

enum { MOST_PATH = 4096 };

typedef struct arguments {
    const char *path, *pictures, *stage;
    int pid, values; /* pid 0: not given */
    long long count; /* 0: until the run ends */
    double every_s;
} arguments;

static int take_every(void *to, char *text) {
    double *seconds = to;
    return mr_parse_number(text, 0, 3600, seconds) ? MR_OK : mr_fail(MR_ERROR_USAGE, "takes seconds up to 3600, not %s",
                                                                   text);
}

static const mr_usage_option options[] = {
    MR_OPTION("control", "PATH", arguments, path, "the socket that `run --control PATH` has named"),
    MR_OPTION_NUMBER("pid", "PID", arguments, pid, 1, INT_MAX, "the run with this process id"),
    MR_OPTION_TAKE("every", "SECONDS", arguments, every_s, take_every,
                   "time between two samples; 1 by default, 0: as many as can be had"),
    MR_OPTION_NUMBER("count", "N", arguments, count, 1, INT_MAX, "ends after so many samples"),
    MR_OPTION_NUMBER("values", "N", arguments, values, 0, 1000, "how many of a tensor's first values; 8 by default"),
    MR_OPTION("pictures", "FOLDER", arguments, pictures, "also writes pictures there, as JPEG"),
    MR_USAGE_COMMON,
};

static const char *const examples[] = {"detect", "decode --pictures build/seen --count 5",
                                       "features --pid 4711 --every 0 | jq .values.mean", NULL};

static const mr_usage usage = {
    .verb = "tap",
    .synopsis = "STAGE",
    .help = "Prints frames that pass a stage of a run, one JSON object a line: the record as jsonl writes it, the "
            "format, and of a tensor its least, greatest and mean value. A stage without outputs shows what it takes, "
            "a source what it reads. Nothing in the run waits for it, and the pipeline's file does not change.",
    .options = options,
    .notes = "It ends with the run. Payloads in a device's memory are left out, and said so.",
    .examples = examples,
};

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

static long long number_in(yajl_val record, const char *key) {
    yajl_val value = mr_json_member(record, key, yajl_t_number);
    return YAJL_IS_INTEGER(value) ? YAJL_GET_INTEGER(value) : 0;
}

/* The source's id may have any characters; a file name gets letters, digits and a few others. */
static void name_picture(const char *folder, yajl_val record, char path[MOST_PATH]) {
    yajl_val source = mr_json_member(record, "source", yajl_t_string);
    char id[128] = "";
    for (const char *c = source ? YAJL_GET_STRING(source) : ""; *c && strlen(id) + 1 < sizeof id; c++) {
        const bool plain = strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", *c) != NULL;
        id[strlen(id)] = plain ? *c : '_';
    }
    snprintf(path, MOST_PATH, "%s/%s-%lld-%06lld-%lld.jpg", folder, id, number_in(record, "epoch"),
             number_in(record, "seq"), number_in(record, "sub"));
}

static int write_picture(const char *folder, yajl_val sample, const char *text) {
    char path[MOST_PATH];
    const size_t room = strlen(text);
    unsigned char *bytes = malloc(room + 1);
    size_t length = 0;
    int status = bytes ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for a picture");
    if (!status && sodium_base642bin(bytes, room + 1, text, room, NULL, &length, NULL, sodium_base64_VARIANT_ORIGINAL))
        status = mr_fail(MR_ERROR_PROTOCOL, "the answer has a picture that is not base64");
    name_picture(folder, mr_json_member(sample, "record", yajl_t_object), path);
    FILE *file = status ? NULL : fopen(path, "wbe");
    if (!status && (!file || fwrite(bytes, 1, length, file) != length))
        status = mr_file_fail("write", path);
    if (file && fclose(file) && !status)
        status = mr_file_fail("write", path);
    free(bytes);
    return status;
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

/* Prints the answer's part "sample" without the picture. */
static void print_sample(const char *answer) {
    const char *from = strstr(answer, "\"sample\":"), *jpeg;
    from = from ? strchr(from, '{') : NULL;
    if (!from)
        return;
    jpeg = strstr(from, ",\"jpeg\":\"");
    const size_t rest = strlen(from); /* it ends with "}}" */
    if (jpeg)
        printf("%.*s}\n", (int)(jpeg - from), from);
    else
        printf("%.*s\n", (int)rest - 1, from);
    fflush(stdout);
}

/* The status of an answer without a sample. MR_ERROR_AGAIN: no frame has passed yet;
 * MR_ERROR_CLOSED: the run has ended. */
static int read_error(yajl_val tree) {
    yajl_val error = mr_json_member(tree, "error", yajl_t_string);
    yajl_val code = mr_json_member(tree, "exit_code", yajl_t_number);
    const long long exit_code = YAJL_IS_INTEGER(code) ? YAJL_GET_INTEGER(code) : 0;
    if (exit_code == mr_status_exit_code(MR_ERROR_AGAIN))
        return MR_ERROR_AGAIN;
    if (exit_code == mr_status_exit_code(MR_ERROR_CLOSED))
        return MR_ERROR_CLOSED;
    const int status = exit_code == mr_status_exit_code(MR_ERROR_USAGE) ? MR_ERROR_USAGE : MR_ERROR_UNAVAILABLE;
    return mr_fail(status, "%s", error ? YAJL_GET_STRING(error) : "the run refuses");
}

static int take_sample(const arguments *given, mr_client *client) {
    char values[32], *asked[] = {values, (char *)"picture=true"};
    const mr_question question = {.what = "tap", .argument = given->stage, .option_count = given->pictures ? 2 : 1,
                                  .options = asked};
    char *answer = NULL;
    yajl_val tree;
    bool ok;
    snprintf(values, sizeof values, "values=%d", given->values);
    int status = mr_client_ask(client, &question, &answer);
    if (status) /* it has ended */
        return status == MR_ERROR_UNAVAILABLE ? MR_ERROR_CLOSED : status;
    status = mr_client_parse(answer, &tree, &ok);
    if (!status && !ok)
        status = read_error(tree);
    if (!status) {
        yajl_val sample = mr_json_member(tree, "sample", yajl_t_object);
        yajl_val jpeg = mr_json_member(sample, "jpeg", yajl_t_string);
        print_sample(answer);
        if (given->pictures && jpeg)
            status = write_picture(given->pictures, sample, YAJL_GET_STRING(jpeg));
    }
    yajl_tree_free(tree);
    free(answer);
    return status;
}

static int take_samples(const arguments *given, mr_client *client) {
    const struct timespec pause = {.tv_sec = (time_t)given->every_s,
                                   .tv_nsec = (long)((given->every_s - (double)(time_t)given->every_s) * 1e9)};
    int status = MR_OK;
    for (long long taken = 0; (!status || status == MR_ERROR_AGAIN) && (!given->count || taken < given->count);) {
        status = take_sample(given, client);
        taken += !status;
        if (status == MR_ERROR_UNAVAILABLE && taken) /* it ends */
            status = MR_ERROR_CLOSED;
        if (!status && !mr_stdout_has_reader())
            break;
        if (!status && (!given->count || taken < given->count))
            nanosleep(&pause, NULL);
    }
    return status == MR_ERROR_CLOSED ? MR_OK : status;
}

static int run_verb(int argc, char **argv) {
    arguments given = {.values = 8, .every_s = 1};
    mr_client client;
    int code = 0;
    if (!mr_usage_take(&usage, argc, argv, &given, &code))
        return code;
    if (optind + 1 != argc)
        return mr_usage_error(&usage, "name one stage or source of the run");
    if (given.path && given.pid)
        return mr_usage_error(&usage, "give either --control or --pid, not both");
    given.stage = argv[optind];
    int status = given.pictures && mr_file_make_folder(given.pictures) ? MR_ERROR_IO : MR_OK;
    if (status)
        return mr_command_failed(status);
    status = mr_client_connect_only(given.path, (pid_t)given.pid, &client);
    if (status)
        return mr_status_exit_code(status);
    status = take_samples(&given, &client);
    mr_client_close(&client);
    code = status ? mr_command_failed(status) : 0;
    return code ? code : mr_flush_stdout();
}

const mr_verb mr_tap_verb = {&usage, "show what passes a stage of a run", run_verb};
