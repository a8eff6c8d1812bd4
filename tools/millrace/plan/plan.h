/* Shared by the files for `millrace plan`: the plan as text and JSON. plan_rows.h has the parts that other verbs print
 * too.
 *
 * Everything comes from the plan's view (millrace/plan.h); nothing here repeats a run's computations. */
#pragma once

#include <stdio.h>

#include "engine/base/json.h"
#include "tools/millrace/cli/plan_rows.h"

/* plan_text.c: tables no wider than `width`. MR_OK or MR_ERROR_MEMORY. */
int mr_plan_print(const mr_plan_view *plan, int width, FILE *stream);
/* A set, without the payload's word if the rest implies it: "I420 1280x720", "f32 3x224x224", "h264". Bytes, or "-". A
 * bound: "at most 64 MiB, likely 20 MiB", "none". Each writes into `text` and returns it. */
enum { MR_PLAN_BOUND = 160 };
const char *mr_plan_format(const mr_format_set *set, char text[MR_FORMAT_SET_TEXT]);
const char *mr_plan_bytes(uint64_t bytes, char text[MR_WORDS]);
const char *mr_plan_bound(const mr_view_bytes *bound, char text[MR_PLAN_BOUND]);
/* plan_memory.c: every row in the memory account, with sums; also as a JSON member. */
int mr_plan_print_account(const mr_plan_view *plan, int width, FILE *stream);
void mr_plan_put_account(yajl_gen json, const mr_plan_view *plan);
/* plan_nodes.c: cuts and each process's needs; nothing without nodes. */
int mr_plan_print_cuts(const mr_plan_view *plan, int width, FILE *stream);
void mr_plan_print_needs(const mr_plan_view *plan, int node, int width, FILE *stream);
void mr_plan_put_cuts(yajl_gen json, const mr_plan_view *plan);
void mr_plan_put_needs(yajl_gen json, const mr_plan_view *plan, int node);
/* plan_expected.c: expected rates; nothing if no device imitates a card. */
int mr_plan_print_expected(const mr_plan_view *plan, int width, FILE *stream);
void mr_plan_put_expected(yajl_gen json, const mr_plan_view *plan);
/* Writes an object's members: a card's known figures. */
void mr_plan_put_card(yajl_gen json, const mr_view_card *card);
/* plan_json.c: a bound; and the members of the plan's JSON object. */
void mr_plan_put_bytes(yajl_gen json, const char *key, const mr_view_bytes *bound);
void mr_plan_put_json(yajl_gen json, const mr_plan_view *plan);
