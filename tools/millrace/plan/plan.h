/* Shared by the files of `millrace plan`: the plan in words and as JSON. What other verbs print of a plan, too, is in
 * plan_rows.h.
 *
 * Everything is read from the view of a plan (millrace/plan.h); nothing is computed here that a run would compute
 * anew. */
#pragma once

#include <stdio.h>

#include "engine/base/json.h"
#include "tools/millrace/cli/plan_rows.h"

/* plan_text.c: tables no wider than `width`. MR_OK or MR_ERROR_MEMORY. */
int mr_plan_print(const mr_plan_view *plan, int width, FILE *stream);
/* plan_memory.c: every row of the account of memory, with its sums; and as a member of one JSON object. */
int mr_plan_print_account(const mr_plan_view *plan, int width, FILE *stream);
void mr_plan_put_account(yajl_gen json, const mr_plan_view *plan);
/* plan_nodes.c: cuts, and the needs of each process; nothing if there are no nodes. */
int mr_plan_print_cuts(const mr_plan_view *plan, int width, FILE *stream);
void mr_plan_print_needs(const mr_plan_view *plan, int node, int width, FILE *stream);
void mr_plan_put_cuts(yajl_gen json, const mr_plan_view *plan);
void mr_plan_put_needs(yajl_gen json, const mr_plan_view *plan, int node);
/* plan_expected.c: the expected rates; nothing if no device is like a card. */
int mr_plan_print_expected(const mr_plan_view *plan, int width, FILE *stream);
void mr_plan_put_expected(yajl_gen json, const mr_plan_view *plan);
/* The members of one object: the known figures of a card. */
void mr_plan_put_card(yajl_gen json, const mr_view_card *card);
/* plan_json.c: a bound; and the members of one JSON object. */
void mr_plan_put_bytes(yajl_gen json, const char *key, const mr_view_bytes *bound);
void mr_plan_put_json(yajl_gen json, const mr_plan_view *plan);
