/* What sinks report about the services that they deliver to: the last report of each stage. Any thread. */
#pragma once

#include "millrace/stage.h"

typedef struct mr_services mr_services;

int mr_services_create(mr_services **services, size_t vertex_count);
void mr_services_destroy(mr_services **services);
/* Returns whether the state changed. */
bool mr_services_note(mr_services *services, size_t vertex, const mr_service_report *report);
mr_service_report mr_services_read(mr_services *services, size_t vertex);
