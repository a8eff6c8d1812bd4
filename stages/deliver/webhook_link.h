/* A web server that takes records by POST, over HTTP or HTTPS.
 *
 * A request is acknowledged by a status from 200 to 299 and a whole answer. 408, 425, 429 and 500 to 599 are tried
 * again, after the time in Retry-After if there is one. Any other status, a redirect too, refuses the records for good
 * (engine/serve/http_client.h).
 *
 * Its records are posts (post.h). Threads: as mr_service_type says. Without libcurl (engine/serve/http_client.h) the
 * first two functions fail. */
#pragma once

#include "millrace/option.h"
#include "stages/deliver/delivery.h"

typedef enum mr_webhook_body { MR_WEBHOOK_RECORD, MR_WEBHOOK_ARRAY, MR_WEBHOOK_LINES } mr_webhook_body;

typedef struct mr_webhook_params {
    const char *url, *ca_file, *secret_file, *authorization_file, *path_file; /* the files may be NULL */
    mr_credentials login;
    mr_pairs headers;
    int body;
    const char *template;
    bool picture;
    int64_t timeout_ns;
} mr_webhook_params;

typedef struct mr_webhook_link mr_webhook_link;

/* Checks the URL and the names of headers. MR_ERROR_UNAVAILABLE: this build has no libcurl; MR_ERROR_CONFIG. */
int mr_webhook_link_check(const mr_webhook_params *params);
/* `params` must live as long as the link. Reads the files: MR_ERROR_NO_INPUT, MR_ERROR_PERMISSION, MR_ERROR_DATA. */
int mr_webhook_link_create(mr_webhook_link **link, const mr_webhook_params *params);
extern const mr_service_type mr_webhook_service;
