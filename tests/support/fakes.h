/* Stage types that do nothing, for configuration tests: they are planned but never run.
 *
 *     camera   source  gives packets (its default type in these tests)
 *     pattern  source  gives pictures of `format`
 *     open     packets -> pictures; keeps 3 buffers, starts 2 threads, per source
 *     shrink   pictures -> tensors f32 3 x size; stateless
 *     learn    tensors f32 -> results; batches, shared
 *     split    pictures -> pictures "left" and "right", and optional results "rest"
 *     pair     pictures on "one", tensors on "other" -> results
 *     gather   anything, joined under names of the author's choice -> as the first
 *     same     anything -> as it came
 *     write    anything; a sink with a path
 *     trash    anything; a sink */
#pragma once

#include "engine/plan/plan_data.h"

extern const mr_stage_type *const fake_types[];

typedef struct fake_camera {
    const char *uri;
    double rate;
    int64_t wait_ns;
    bool loop;
} fake_camera;

typedef struct fake_shrink {
    mr_size size;
    int fit;
    mr_doubles mean;
    struct {
        bool given;
        int64_t x, y, width;
    } region;
} fake_shrink;

typedef struct fake_write {
    const char *path;
    bool features;
} fake_write;

/* Parses `text` with the fake types; the caller sets everything else in `params`. */
int fake_load(mr_plan **plan, const char *text, mr_diagnostics *diagnostics);
/* Loads `text`, which must be wrong, and asserts that the diagnostics print as `expected`. */
void fake_expect(const char *text, const char *expected);
/* The vertex with this id; NULL if there is none. `vertex` fails the test then. */
const mr_plan_vertex *find_vertex(const mr_plan *plan, const char *id);
const mr_plan_vertex *vertex(const mr_plan *plan, const char *id);
/* The printed diagnostics; the caller must free them. */
char *printed(const mr_diagnostics *diagnostics);
/* Asserts that they print as `expected`, or with that in it, and empties them. */
void expect_printed(mr_diagnostics *diagnostics, const char *expected);
void expect_in_print(mr_diagnostics *diagnostics, const char *expected);
