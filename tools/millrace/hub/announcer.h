/* Reports a run's state to the hub that the pipeline names: every two seconds, and when it changes. Nothing waits for
 * the hub: while none is connected, reports are lost, and the next one has everything.
 *
 * The run's thread calls these functions. With NULL they do nothing: the pipeline names no hub. */
#pragma once

#include "millrace/plan.h"
#include "tools/millrace/http/observed.h"

typedef struct mr_announcer mr_announcer;

/* *announcer stays NULL if the plan has no hub. `page`: the address of the run's page; "": none. Errors: as in
 * millrace/channel.h. */
int mr_announcer_open(mr_announcer **announcer, const mr_plan_view *plan, const char *page);
/* Borrows `now` for the call. */
void mr_announcer_show(mr_announcer *announcer, const mr_observed *now);
/* Reports the end, with the numbers that were shown last. Waits at most half a second until the hub has taken them. A
 * run that lasted less than half a second waits for as long until it is connected. */
void mr_announcer_close(mr_announcer **announcer, int exit_code);
