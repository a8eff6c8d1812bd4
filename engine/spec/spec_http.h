/* `http` in the YAML: where a run answers over HTTP, and to which clients. One thread at a time. */
#pragma once

#include <stdint.h>

#include "engine/text/options.h"

typedef struct mr_spec_http {
    const char *listen;      /* NULL: nowhere */
    const char *token_file, *certificate, *key; /* NULL: none */
    mr_strings hosts;
    int64_t linger_ns, stall_ns;
} mr_spec_http;

/* The keys in it. */
extern const mr_option mr_http_keys[];

/* Reads the value of `http`, which may be NULL; reports errors to the reader's diagnostics. If it is wrong, *http has
 * the defaults. MR_OK or MR_ERROR_MEMORY. */
int mr_spec_read_http(const mr_option_reader *reader, const mr_yaml *map, mr_spec_http *http);
