/* Asks a run: a request and its answer, one line of JSON each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "engine/base/json.h"
#include "millrace/status.h"
#include "tools/millrace/ctl/client.h"
#include "tools/millrace/run/control.h"

/* How many times to ask again if a run closes the connection: for five seconds. */
enum { MOST_TRIES = 100 };

static void put_options(yajl_gen json, const mr_question *from) {
    char key[256];
    MR_JSON_MAP(json, "options")
        for (size_t i = 0; i < from->option_count; i++) {
            const char *equals = strchr(from->options[i], '=');
            snprintf(key, sizeof key, "%.*s", (int)(equals - from->options[i]), from->options[i]);
            mr_json_text(json, key, equals + 1);
        }
}

static int send_request(const mr_question *from, int fd) {
    yajl_gen json = mr_json_create(false);
    size_t length = 0;
    if (!json)
        return MR_ERROR_MEMORY;
    MR_JSON_MAP(json, NULL) {
        mr_json_integer(json, "millrace", MR_CONTROL_VERSION);
        mr_json_text(json, "do", from->what);
        if (from->argument)
            mr_json_text(json, "argument", from->argument);
        if (from->option_count)
            put_options(json, from);
    }
    char *text = mr_json_finish_text(json, &length);
    int status = text ? mr_control_send(fd, text, length) : MR_ERROR_MEMORY;
    free(text);
    return status;
}

/* Reconnects to the same process. */
static int connect_again(mr_client *client) {
    struct sockaddr_un at = {0};
    socklen_t bytes = sizeof at;
    mr_client other;
    if (getpeername(client->fd, (struct sockaddr *)&at, &bytes) || mr_client_connect(at.sun_path, &other))
        return mr_fail(MR_ERROR_UNAVAILABLE, "the run has ended before it answered");
    const bool same = mr_client_peer(other.fd) == mr_client_peer(client->fd);
    mr_client_close(client);
    client->fd = other.fd;
    return same ? MR_OK : mr_fail(MR_ERROR_UNAVAILABLE, "the run has ended before it answered");
}

/* A run with too many clients closes connections whose requests it has not read. */
int mr_client_ask(mr_client *client, const mr_question *question, char **answer) {
    const struct timespec pause = {.tv_nsec = 50000000};
    for (int tries = 0;; tries++) {
        mr_control_set_patience(client->fd, client->patience_s);
        int status = send_request(question, client->fd);
        if (!status)
            status = mr_control_receive(client->fd, answer);
        if (status == MR_ERROR_AGAIN) /* a late answer must not be taken for the next one */
            return connect_again(client) ? MR_ERROR_UNAVAILABLE : mr_fail(status, "the run does not answer");
        if (status != MR_ERROR_CLOSED)
            return status;
        if (tries == MOST_TRIES)
            return mr_fail(MR_ERROR_AGAIN, "the run is busy with the requests of other programs: try again");
        nanosleep(&pause, NULL);
        status = connect_again(client);
        if (status)
            return status;
    }
}

int mr_client_parse(const char *answer, yajl_val *tree, bool *ok) {
    char why[256] = "";
    *tree = mr_json_parse(answer, why, sizeof why);
    yajl_val said = mr_json_member(*tree, "ok", yajl_t_any);
    *ok = YAJL_IS_TRUE(said);
    if (YAJL_IS_TRUE(said) || YAJL_IS_FALSE(said))
        return MR_OK;
    if (*tree)
        yajl_tree_free(*tree);
    *tree = NULL;
    return mr_fail(MR_ERROR_PROTOCOL, "the answer is not from a millrace run");
}
