/* Makes a plan's view (millrace/plan.h). Internal to engine/pipeline. */
#pragma once

#include "engine/base/arena.h"
#include "engine/plan/plan_data.h"
#include "millrace/plan.h"

typedef struct mr_view {
    mr_plan_view shown; /* must be first: programs have its address */
    const mr_plan *plan;
    mr_plan *own;       /* the same plan, if the view must destroy it; otherwise NULL */
    mr_arena arena;     /* owns everything the view points to, except parts of the plan */
} mr_view;

/* view_stages.c: stages with pools, links and cuts. MR_ERROR_MEMORY, as in the others. */
int mr_view_fill_stages(mr_view *view, const mr_plan *plan);
/* view_cards.c: the result refers to the card's texts. NULL: no memory. */
const mr_view_card *mr_view_make_card(mr_arena *arena, const mr_card *card);
/* view_process.c: threads and stages' files. Call them after mr_view_fill_stages. */
int mr_view_fill_threads(mr_view *view, const mr_plan *plan);
int mr_view_fill_files(mr_view *view);
