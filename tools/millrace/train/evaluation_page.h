/* An evaluation as one HTML file that needs no other and no network. A script in it (evaluation_page.html) draws the
 * evaluation's JSON. Main thread. */
#pragma once

#include "tools/millrace/train/evaluation.h"
#include "tools/millrace/train/thumbnails.h"

enum { MR_PAGE_PICTURES = 24 };

/* evaluation_page.html; tools/text.cmake compiles it in. */
extern const char mr_evaluation_page_template[];

/* MR_ERROR_MEMORY, MR_ERROR_IO, MR_ERROR_PERMISSION. */
int mr_evaluation_page_write(const mr_evaluation *evaluation, const char *path);
/* A thumbnail as a data URI, valid until the next call; "" if it has no pixels. */
const char *mr_evaluation_page_picture(const mr_thumbnail *thumbnail);
