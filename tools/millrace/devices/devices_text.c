/* millrace devices, for people. */
#include <string.h>

#include "engine/base/print.h"
#include "kernels/choice.h"
#include "kernels/kernels.h"
#include "tools/millrace/devices/devices.h"
#include "tools/millrace/plan/plan.h"

enum { LEFT = 8 };

/* A line of a device's; `name` before the first. */
static void begin(const char *name, FILE *stream) {
    mr_print(stream, "%-*s", LEFT, name);
}

static const char *plural(int count) {
    return count == 1 ? "" : "s";
}

static void print_host(const mr_host *host, FILE *stream) {
    char all[MR_WORDS], available[MR_WORDS], kernels[128];
    begin("cpu", stream);
    mr_print(stream, "%s\n", *host->model ? host->model : "processors");
    begin("", stream);
    mr_print(stream, "%d of %d core%s for this process, %d NUMA node%s, kernels: %s\n", host->usable, host->cores,
             plural(host->cores), host->nodes, plural(host->nodes), mr_kernels_describe(mr_kernels_get(), kernels, sizeof kernels));
    if (host->memory_bytes) {
        begin("", stream);
        mr_print(stream, "%s memory, %s available\n", mr_words_bytes(host->memory_bytes, all),
                 mr_words_bytes(host->available_bytes, available));
    }
}

static void print_findings(const mr_gpu_finding *findings, int count, const char *name, FILE *stream) {
    for (int i = 0; i < count; i++) {
        begin(i ? "" : name, stream);
        mr_print(stream, "%s: %s\n", findings[i].fatal ? "cannot be used" : "note", findings[i].what);
        begin("", stream);
        mr_print(stream, "  to mend it: %s\n", findings[i].mend);
    }
}

static void print_memory(const mr_gpu *gpu, FILE *stream) {
    char all[MR_WORDS], available[MR_WORDS];
    begin("", stream);
    mr_print(stream, "%s memory", mr_words_bytes(gpu->memory_bytes, all));
    if (gpu->free_bytes)
        mr_print(stream, ", %s free", mr_words_bytes(gpu->free_bytes, available));
    mr_print(stream, "; compute capability %d.%d, %d multiprocessor%s, %d copy engine%s\n", gpu->major, gpu->minor,
             gpu->multiprocessors, plural(gpu->multiprocessors), gpu->copy_engines, plural(gpu->copy_engines));
}

static void print_load(const mr_gpu *gpu, FILE *stream) {
    if (gpu->utilisation < 0 && gpu->celsius < 0)
        return;
    begin("", stream);
    if (gpu->utilisation >= 0)
        mr_print(stream, "load %d%%, memory bus %d%%%s", gpu->utilisation, gpu->memory_utilisation,
                 gpu->celsius >= 0 ? ", " : "");
    if (gpu->celsius >= 0)
        fprintf(stream, "%d degrees C", gpu->celsius);
    fputc('\n', stream);
}

static void print_decoders(const mr_gpu *gpu, FILE *stream) {
    if (!gpu->codec_count)
        return;
    begin("", stream);
    fputs("decodes ", stream);
    for (int i = 0; i < gpu->codec_count; i++)
        mr_print(stream, "%s%s up to %ux%u%s", i ? ", " : "", gpu->codecs[i].name, gpu->codecs[i].max_width,
                 gpu->codecs[i].max_height, gpu->codecs[i].ten_bits ? " (8 and 10 bits)" : "");
    fputc('\n', stream);
}

static void print_gpu(const mr_gpu *gpu, FILE *stream) {
    char name[16];
    snprintf(name, sizeof name, "cuda:%d", gpu->index);
    begin(name, stream);
    mr_print(stream, "%s%s%s\n", gpu->name, *gpu->uuid ? ", cuda:" : "", gpu->uuid);
    print_memory(gpu, stream);
    print_load(gpu, stream);
    print_decoders(gpu, stream);
    print_findings(gpu->findings, gpu->finding_count, "", stream);
}

/* Tells which GPUs reach each other's memory, if there are several. */
static void print_peers(const mr_gpus *gpus, FILE *stream) {
    if (gpus->count < 2)
        return;
    begin("peers", stream);
    fputs("from \\ to", stream);
    for (int to = 0; to < gpus->count; to++)
        fprintf(stream, " %4d", to);
    fputc('\n', stream);
    for (int from = 0; from < gpus->count; from++) {
        begin("", stream);
        fprintf(stream, "%9d", from);
        for (int to = 0; to < gpus->count; to++)
            mr_print(stream, " %4s", from == to ? "-" : gpus->gpu[from].peers >> to & 1 ? "yes" : "no");
        fputc('\n', stream);
    }
}

static void print_driver(const mr_gpus *gpus, FILE *stream) {
    if (!gpus->driver_cuda)
        return;
    begin("nvidia", stream);
    mr_print(stream, "driver %s, which runs CUDA up to %d.%d", *gpus->driver ? gpus->driver : "of unknown version",
             gpus->driver_cuda / 1000, gpus->driver_cuda % 1000 / 10);
    if (gpus->runtime)
        fprintf(stream, "; this build is made with CUDA %d.%d", gpus->runtime / 1000, gpus->runtime % 1000 / 10);
    fputc('\n', stream);
}

void mr_devices_print(const mr_host *host, const mr_gpus *gpus, FILE *stream) {
    print_host(host, stream);
    for (int i = 0; i < gpus->count; i++)
        print_gpu(&gpus->gpu[i], stream);
    print_peers(gpus, stream);
    print_driver(gpus, stream);
    print_findings(gpus->findings, gpus->finding_count, "cuda:N", stream);
    begin("sim:N", stream);
    fputs("simulated accelerators, any number, always there\n", stream);
}
