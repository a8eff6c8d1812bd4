#include "engine/flow/run/services.h"

#include <pthread.h>
#include <stdatomic.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"

typedef struct stage {
    mr_service_report report;
    _Atomic uint64_t untaken;
} stage;

struct mr_services {
    pthread_mutex_t lock; /* for the reports */
    stage of[];           /* by vertex */
};

int mr_services_create(mr_services **services, size_t vertex_count) {
    mr_services *made = mr_calloc(1, sizeof *made + vertex_count * sizeof *made->of);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the graph");
    pthread_mutex_init(&made->lock, NULL);
    *services = made;
    return MR_OK;
}

void mr_services_destroy(mr_services **services) {
    mr_services *gone = *services;
    if (!gone)
        return;
    pthread_mutex_destroy(&gone->lock);
    mr_free(gone);
    *services = NULL;
}

bool mr_services_note(mr_services *services, size_t vertex, const mr_service_report *report) {
    MR_LOCKED(&services->lock);
    bool changed = services->of[vertex].report.phase != report->phase;
    services->of[vertex].report = *report;
    return changed;
}

mr_service_report mr_services_read(mr_services *services, size_t vertex) {
    MR_LOCKED(&services->lock);
    return services->of[vertex].report;
}

void mr_services_count_untaken(mr_services *services, size_t vertex, int64_t change) {
    atomic_fetch_add_explicit(&services->of[vertex].untaken, (uint64_t)change, memory_order_relaxed);
}

uint64_t mr_services_untaken(const mr_services *services, size_t vertex) {
    return atomic_load_explicit(&services->of[vertex].untaken, memory_order_relaxed);
}
