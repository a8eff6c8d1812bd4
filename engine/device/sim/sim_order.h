/* The order between work on simulated devices. The caller must hold the lock that all devices share (sim_memory.h). */
#pragma once

#include "engine/device/sim/sim_parts.h"

void mr_sim_order_add(sim_stream *stream);
void mr_sim_order_remove(sim_stream *stream);
uint64_t mr_sim_order_submit(sim_stream *stream);
void mr_sim_order_record(sim_item *record);
void mr_sim_order_recorded(sim_item *record);
void mr_sim_order_wait(sim_stream *stream, const mr_event *event);
/* Whether all future work on the stream is ordered after that point, whatever the devices do. */
bool mr_sim_order_covers(const sim_stream *stream, sim_point point);
/* Whether that work is done. */
bool mr_sim_order_done(sim_point point);
