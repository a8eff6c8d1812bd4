/* A list of still images, one packet per file, and videos. */
#pragma once

#include "stages/media/media_reader.h"

int mr_reader_open_images(mr_reader **reader, const mr_reader_params *params);
/* Calls `add` for each video in a folder or glob, in natural order; see mr_stage_type.spread. */
int mr_reader_spread(const char *uri, int (*add)(void *context, const char *uri), void *context);
