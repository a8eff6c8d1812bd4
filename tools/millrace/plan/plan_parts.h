/* Parts of the plan, each as text, with tables no wider than `width`, and as JSON. MR_OK or MR_ERROR_MEMORY. */
#pragma once

#include <stdio.h>

#include "tools/millrace/plan/plan_values.h"

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
