/* Makes the view of a plan (millrace/plan.h). Internal to engine/pipeline. */
#pragma once

#include "engine/base/arena.h"
#include "engine/plan/plan_data.h"
#include "millrace/plan.h"

typedef struct mr_view {
    mr_plan_view shown; /* first: programs have its address */
    const mr_plan *plan;
    mr_plan *own;       /* that plan, if nothing else owns it; else NULL */
    mr_arena arena;     /* everything it points to, except parts of the plan */
} mr_view;

/* view_stages.c: stages with their pools, links and cuts. MR_ERROR_MEMORY, as the others. */
int mr_view_fill_stages(mr_view *view, const mr_plan *plan);
/* view_cards.c: refers to the texts of `card`. NULL if memory runs out. */
const mr_view_card *mr_view_make_card(mr_arena *arena, const mr_card *card);
/* view_process.c: threads and files of stages; to be called after mr_view_fill_stages. */
int mr_view_fill_threads(mr_view *view, const mr_plan *plan);
int mr_view_fill_files(mr_view *view);
