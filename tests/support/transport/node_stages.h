/* Stage types for node tests. `chew`: stateless; with `uneven` some frames take longer; the process dies from SIGKILL
 * at frame `fatal_at`. `hold`: makes frames from number `at` on wait until `file` exists. `bulk`: gives each frame a
 * tensor with `bytes` bytes, all equal to the low byte of its number. `load`: adds a result that begins with the frame
 * number and a thousand, with 8 bytes, or 80,000 for every third. `paint`: makes gray pictures, but every third,
 * starting with the first, is RGB24, which it has not declared. `gray`: passes frames on, and accepts only gray
 * pictures. */
#pragma once

#include "millrace/stage.h"

extern const mr_stage_type node_chew, node_hold, node_bulk, node_load, node_paint, node_gray;
