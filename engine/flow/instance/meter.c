#include "engine/flow/instance/meter.h"

/* Stages faster than this are measured once in SHORT_STRIDE calls: reading the thread's clock needs kernel time, which
 * would exceed theirs. */
static const int64_t SHORT_CPU_NS = 10000;
enum { SHORT_STRIDE = 16 };

bool mr_meter_measures(mr_meter *meter) {
    return !meter->stride || meter->calls++ % meter->stride == 0;
}

void mr_meter_add_cpu(mr_meter *meter, int64_t spent_ns) {
    int64_t known = atomic_load_explicit(&meter->cpu_ns, memory_order_relaxed);
    meter->stride = spent_ns < SHORT_CPU_NS ? SHORT_STRIDE : 1;
    atomic_store_explicit(&meter->cpu_ns, known + spent_ns * meter->stride, memory_order_relaxed);
}

void mr_meter_renew(mr_meter *meter) {
    atomic_store(&meter->in, 0);
    atomic_store(&meter->out, 0);
    atomic_store(&meter->times, 0);
    atomic_store(&meter->busy_ns, 0);
    atomic_store(&meter->most_frames, 0);
    atomic_store(&meter->cpu_ns, 0);
}

void mr_meter_read(const mr_meter *meter, mr_stage_summary *summary, mr_histogram_sums *latency) {
    int most_frames = (int)atomic_load_explicit(&meter->most_frames, memory_order_relaxed);
    summary->batch_peak = most_frames > summary->batch_peak ? most_frames : summary->batch_peak;
    summary->cpu_ns += atomic_load_explicit(&meter->cpu_ns, memory_order_relaxed);
    summary->in += atomic_load_explicit(&meter->in, memory_order_relaxed);
    summary->out += atomic_load_explicit(&meter->out, memory_order_relaxed);
    summary->calls += atomic_load_explicit(&meter->times, memory_order_relaxed);
    summary->busy_ns += atomic_load_explicit(&meter->busy_ns, memory_order_relaxed);
    mr_histogram_sum(&meter->latency, latency);
}
