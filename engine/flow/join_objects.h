/* Gathers frames and the frames of their objects: see join_objects.c. Internal to engine/flow. */
#pragma once

#include "engine/flow/instance/instance.h"

/* WAITS: an item is missing; its supplier will wake the instance. TAKEN: the slot has the inputs of a call, or an end.
 * PASSED: items without a partner were taken; more may be there. */
typedef enum mr_join_verdict { MR_JOIN_WAITS, MR_JOIN_TAKEN, MR_JOIN_PASSED } mr_join_verdict;

/* Advances one source by one item, for a type that gathers. */
mr_join_verdict mr_join_objects(mr_instance *instance, mr_slot *slot, size_t turn, mr_entry_task *entry);

/* In join.c, for both. Every port of the source is at its end: takes the ends. */
void mr_join_take_ends(mr_instance *instance, mr_slot *slot, uint32_t source);
/* There is no frame, and every port is away: later joins need not wait either. Reported once. */
void mr_join_pass_absence_on(mr_instance *instance, mr_slot *slot, uint32_t source, size_t turn);
