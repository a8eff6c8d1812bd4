/* The hub's HTTP server: the page, /metrics, health, and the API below /api/v1 (openapi.json). The server's thread
 * reads the registry under a lock, which the hub holds while it changes it. */
#pragma once

#include "millrace/plan.h"
#include "tools/millrace/hub/registry.h"

typedef struct mr_hub_http mr_hub_http;

/* What the server shows. The hub's thread changes it between hold and release only. */
typedef struct mr_hub_shown {
    mr_hub_registry registry;
    char host[MR_HUB_NAME];  /* this machine's name */
    int64_t began_ns;        /* when the hub started */
    uint64_t peers, refused; /* connections now; those that were refused */
} mr_hub_shown;

/* Errors: as mr_http_listen. `shown` must outlive the server. */
int mr_hub_http_open(mr_hub_http **http, const mr_view_http *where, mr_hub_shown *shown);
/* As mr_http_listener_page. */
const char *mr_hub_http_page(const mr_hub_http *http);
void mr_hub_http_hold(mr_hub_http *http);
void mr_hub_http_release(mr_hub_http *http);
/* Gives all event streams the state as it is now. Without the lock. */
void mr_hub_http_wake(mr_hub_http *http);
/* NULL is allowed. */
void mr_hub_http_close(mr_hub_http **http);
