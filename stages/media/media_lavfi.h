/* A libavfilter test pattern graph, whose pictures are raw video packets. */
#pragma once

#include "stages/media/media_reader.h"

int mr_reader_open_lavfi(mr_reader **reader, const mr_reader_params *params);
/* MR_OK if all filters in the graph are allowed, else MR_ERROR_CONFIG. */
int mr_reader_check_lavfi(const char *graph);
