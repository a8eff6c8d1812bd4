/* A container, read by libavformat. */
#pragma once

#include "stages/media/media_reader.h"

int mr_reader_open_file(mr_reader **reader, const mr_reader_params *params);
