/* An HTTP server at an address that a pipeline or an option names, with the token and the keys from files; and answers
 * that such servers share. One thread opens and closes it. */
#pragma once

#include <yajl/yajl_gen.h>

#include "engine/serve/http_server.h"
#include "millrace/plan.h"

typedef struct mr_http_listener mr_http_listener;

/* Listens where `http` says, which mr_http_address_check has accepted and which must outlive the listener. Reports the
 * address: a port that the system has chosen to standard error, others to the log. Errors: as in http_address.h and
 * http_token.h; MR_ERROR_MEMORY; MR_ERROR_UNAVAILABLE. */
int mr_http_listen(mr_http_listener **listener, const mr_view_http *http, const mr_http_route *routes,
                   const char *not_found);
/* Reads the files that `http` names, as mr_http_listen does, and forgets them. Errors: as above. */
int mr_http_check_files(const mr_view_http *http);
/* The server's address as other machines may reach it, with this machine's name if it listens at all addresses. "" for
 * a Unix socket or NULL. Valid as long as the listener. */
const char *mr_http_listener_page(const mr_http_listener *listener);
/* All requests have ended when it returns. NULL is allowed. */
void mr_http_unlisten(mr_http_listener **listener);

/* A route for /icon.svg, for which browsers ask without the page's token. */
mr_http_reply mr_http_answer_icon(mr_http_request *request, void *context);
/* Makes an answer of a JSON document, and frees the generator; of a text that free() frees. */
mr_http_reply mr_http_send_json(mr_http_request *request, yajl_gen json);
mr_http_reply mr_http_send_text(mr_http_request *request, const char *type, char *text, size_t bytes, unsigned code);
