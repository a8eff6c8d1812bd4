/* A plan's instances, the links between them, and the routes: the link that takes each source's frames. One thread
 * creates and destroys it; it is constant in between. */
#pragma once

#include "engine/flow/instance/instance.h"

typedef struct mr_wiring mr_wiring;

/* `run_entry` is what the task of each entry runs (step.h). MR_ERROR_MEMORY. */
int mr_wiring_create(mr_wiring **wiring, const mr_run *run, void (*run_entry)(void *entry));
/* The executor must have stopped. */
void mr_wiring_destroy(mr_wiring **wiring);
/* The instances, in the order of the plan's vertices. */
size_t mr_wiring_count(const mr_wiring *wiring);
mr_instance *mr_wiring_at(const mr_wiring *wiring, size_t index);
/* A source's instance; NULL: it runs on another node. */
mr_instance *mr_wiring_source(const mr_wiring *wiring, uint32_t source);
/* The link through which an external source's frames come in. */
mr_link *mr_wiring_external_inlet(const mr_wiring *wiring, uint32_t source);
/* Ends all tasks' threads in parallel. */
void mr_wiring_end_tasks(const mr_wiring *wiring);
