/* Opens a file reader (media_reader.h), chosen by the uri and the file or folder that it names. */
#pragma once

#include "stages/media/media_reader.h"

/* Checks only the text in `uri`. MR_ERROR_NO_INPUT: not a file. MR_ERROR_CONFIG: an invalid test pattern graph.
 * mr_reader_open checks this too. */
int mr_reader_check(const char *uri);
/* MR_ERROR_NO_INPUT, MR_ERROR_PERMISSION, MR_ERROR_DATA (not a supported media file), MR_ERROR_CONFIG,
 * MR_ERROR_CANCELLED. */
int mr_reader_open(mr_reader **reader, const mr_reader_params *params);
