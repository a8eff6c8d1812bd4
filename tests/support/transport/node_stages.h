/* Stage types for tests of nodes: `chew` (stateless; with `uneven` some frames take it longer than others; the process
 * dies of SIGKILL at frame `fatal_at`), `hold` (lets frames from number `at` on wait until there is `file`), `bulk`
 * (gives each frame a tensor of `bytes`, all of them the low byte of its number) and `load` (gives frames a result that
 * begins with their number and a thousand, of 8 bytes or, every third, of 80,000), `paint` (makes gray pictures, but
 * every third, from the first on, of RGB24, which it has not declared) and `gray` (passes on, and takes gray pictures
 * only). */
#pragma once

#include "millrace/stage.h"

extern const mr_stage_type node_chew, node_hold, node_bulk, node_load, node_paint, node_gray;
