/* Serves a store's pictures over HTTP.
 *
 *     GET /              a page that shows all sources
 *     GET /.json         the sources that have pictures
 *     GET /ID.jpg        the newest picture of a source
 *     GET /ID.mjpeg      all pictures, each a part of multipart/x-mixed-replace
 *     GET /ID.json       the record of the newest picture, as jsonl writes it */
#pragma once

#include "engine/serve/http_server.h"
#include "stages/preview/preview_store.h"

/* Must stay valid as long as the server. */
typedef struct mr_preview_site {
    mr_preview_store *store;
    char *page; /* from mr_page_make */
    size_t page_bytes;
} mr_preview_site;

/* Starts a server for the site. It sets the routes and the 404 text in `params`. */
int mr_preview_serve(mr_http_server **server, const mr_http_params *params, mr_preview_site *site);
