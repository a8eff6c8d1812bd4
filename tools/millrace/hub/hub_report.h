/* A run's report to the hub: proto/hub.proto as bytes and as a struct. Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "proto/hub.pb-c.h"

typedef Millrace__Hub__Report mr_hub_report;

/* The longest message; the most entries of a list; the longest texts, with the final 0. */
enum { MR_HUB_MESSAGE = 32768, MR_HUB_LIST = 64 };
enum {
    MR_HUB_NAME = 128,  /* host, pipeline, node, process, device */
    MR_HUB_WORD = 80,   /* digest, run, program, state */
    MR_HUB_PAGE = 512,
    MR_HUB_WHY = 256
};

/* Reads and checks a message, which any program may have sent: texts are printable UTF-8 within these lengths, lists
 * have at most MR_HUB_LIST entries, numbers fit into an int64_t, and the page is at http:// or https://. *report must
 * be freed with mr_hub_report_free. MR_ERROR_DATA with the reason, MR_ERROR_MEMORY. */
int mr_hub_report_read(mr_hub_report **report, const void *data, size_t bytes);
/* NULL is allowed. */
void mr_hub_report_free(mr_hub_report **report);
/* Returns the message's bytes; 0: it has more than MR_HUB_MESSAGE. */
size_t mr_hub_report_write(const mr_hub_report *report, unsigned char data[MR_HUB_MESSAGE]);

/* Whether an address leads to a page. */
bool mr_hub_page_is(const char *address);
