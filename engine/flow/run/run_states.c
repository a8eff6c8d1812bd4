#include "engine/flow/run/run_states.h"

#include <stdatomic.h>

#include "engine/base/memory.h"
#include "engine/flow/run/resume.h"

/* By vertex: the state that a cut in has received. Sources and stages receive no report; they begin the run. */
struct mr_run_states {
    _Atomic mr_run_state *heard;
    bool *enters, *leaves; /* cut ends in this process */
};

int mr_run_state_create(mr_run *run) {
    const mr_plan *plan = run->plan;
    mr_run_states *made = run->states = mr_calloc(1, sizeof *made);
    if (made) {
        made->heard = mr_calloc(plan->vertex_count + 1, sizeof *made->heard);
        made->enters = mr_calloc(plan->vertex_count + 1, sizeof *made->enters);
        made->leaves = mr_calloc(plan->vertex_count + 1, sizeof *made->leaves);
    }
    if (!made || !made->heard || !made->enters || !made->leaves)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the pipeline %s", plan->name);
    for (size_t i = 0; i < plan->cut_count; i++) {
        made->enters[plan->cuts[i].in] = mr_plan_is_here(plan, &plan->vertices[plan->cuts[i].in]);
        made->leaves[plan->cuts[i].out] = mr_plan_is_here(plan, &plan->vertices[plan->cuts[i].out]);
    }
    return MR_OK;
}

void mr_run_state_destroy(mr_run *run) {
    mr_run_states *states = run->states;
    if (!states)
        return;
    mr_free(states->heard);
    mr_free(states->enters);
    mr_free(states->leaves);
    mr_free(states);
    run->states = NULL;
}

void mr_run_state_tell(const mr_run *run, int vertex, mr_run_state state) {
    mr_run_state none = MR_RUN_UNKNOWN;
    atomic_compare_exchange_strong(&run->states->heard[vertex], &none, state);
}

/* Looks back only to the cuts through which frames enter this process. */
mr_run_state mr_run_state_of(const mr_run *run, int vertex) {
    const mr_plan *plan = run->plan;
    const mr_run_states *states = run->states;
    mr_run_state all = MR_RUN_BEGINS;
    /* A sink in this process may have written frames that were not settled; other nodes get such frames again. */
    if (states->leaves[vertex] ? mr_resume_any_settled(run->resume) : mr_resume_continues(run->resume))
        return MR_RUN_GOES_ON;
    bool *before = mr_calloc(plan->vertex_count, sizeof *before);
    if (!before)
        return MR_RUN_UNKNOWN; /* the caller must ask again soon */
    before[vertex] = true;
    for (size_t i = plan->edge_count; i-- > 0;)
        before[plan->edges[i].from] |= before[plan->edges[i].to] && !states->enters[plan->edges[i].to];
    for (size_t v = 0; v < plan->vertex_count && all != MR_RUN_GOES_ON; v++) {
        if (!before[v] || !states->enters[v])
            continue;
        mr_run_state heard = atomic_load(&states->heard[v]);
        all = heard == MR_RUN_BEGINS ? all : heard;
    }
    mr_free(before);
    return all;
}
