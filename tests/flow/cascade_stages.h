/* The stage types of a cascade in flow tests: "split" makes objects of a frame, "unite" puts them together. A suite
 * gives the functions, and uses the ports for types beside them. */
#pragma once

#include "millrace/stage.h"

static const mr_port in[] = {{.name = "in"}, {0}}, out[] = {{.name = "out"}, {0}};
static const mr_port both[] = {{.name = "frames"}, {.name = "objects"}, {0}};

#define CASCADE_SPLIT(function)                                                                                       \
    {.name = "split", .summary = "splits", .inputs = in, .outputs = out, .entry = MR_ENTRY_PER_SOURCE,                \
     .cascade = MR_CASCADE_SPLIT, .process = function}
#define CASCADE_UNITE(function)                                                                                       \
    {.name = "unite", .summary = "unites", .inputs = both, .outputs = out, .entry = MR_ENTRY_PER_SOURCE,              \
     .cascade = MR_CASCADE_GATHER, .process = function}
