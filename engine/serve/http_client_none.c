#include "engine/serve/http_client.h"

#include "millrace/status.h"

int mr_http_client_check(const char *url) {
    return mr_fail(MR_ERROR_UNAVAILABLE,
                   "this millrace was built without libcurl: install libcurl4-gnutls-dev and build it again");
}

bool mr_http_client_shows(const char *url) {
    return false;
}

int mr_http_client_create(mr_http_client **client, const mr_http_client_params *params) {
    *client = NULL;
    return mr_http_client_check(params->url);
}

int mr_http_client_add_header(mr_http_client *client, const char *name, const char *value) {
    return mr_http_client_check(value);
}

int mr_http_client_post(mr_http_client *client, const mr_http_post *post, mr_http_answer *answer) {
    *answer = (mr_http_answer){0};
    return mr_http_client_check(NULL);
}

void mr_http_client_disconnect(mr_http_client *client) {
}

void mr_http_client_destroy(mr_http_client **client) {
    *client = NULL;
}
