/* Single values in a plan, as texts and in JSON. */
#pragma once

#include "engine/base/json.h"
#include "tools/millrace/cli/plan_rows.h"

/* A set, without the payload's word if the rest implies it: "I420 1280x720", "f32 3x224x224", "h264". Bytes, or "-". A
 * bound: "at most 64 MiB, likely 20 MiB", "none". Each writes into `text` and returns it. */
enum { MR_PLAN_BOUND = 160 };
const char *mr_plan_format(const mr_format_set *set, char text[MR_FORMAT_SET_TEXT]);
const char *mr_plan_bytes(uint64_t bytes, char text[MR_WORDS]);
const char *mr_plan_bound(const mr_view_bytes *bound, char text[MR_PLAN_BOUND]);
void mr_plan_put_bytes(yajl_gen json, const char *key, const mr_view_bytes *bound);
