/* What sinks report about the services and programs that take their frames: the last report of each stage, and how many
 * frames no program has taken yet. Any thread. */
#pragma once

#include "millrace/stage.h"

typedef struct mr_services mr_services;

int mr_services_create(mr_services **services, size_t vertex_count);
void mr_services_destroy(mr_services **services);
/* Returns whether the state changed. */
bool mr_services_note(mr_services *services, size_t vertex, const mr_service_report *report);
mr_service_report mr_services_read(mr_services *services, size_t vertex);
/* Adds to the frames of a stage that no program has taken yet; negative: takes away. */
void mr_services_count_untaken(mr_services *services, size_t vertex, int64_t change);
uint64_t mr_services_untaken(const mr_services *services, size_t vertex);
