/* millrace devices, for people. */
#include <string.h>

#include "engine/base/print.h"
#include "tools/millrace/cli/plan_rows.h"
#include "tools/millrace/devices/devices.h"

enum { LEFT = 8 };

/* Prints a line about a device, with `name` before the first. */
static void begin(const char *name, FILE *stream) {
    mr_print(stream, "%-*s", LEFT, name);
}

static const char *plural(int count) {
    return count == 1 ? "" : "s";
}

static void print_host(const mr_machine *machine, FILE *stream) {
    char all[MR_WORDS], available[MR_WORDS];
    begin("cpu", stream);
    mr_print(stream, "%s\n", machine->processor ? machine->processor : "processors");
    begin("", stream);
    mr_print(stream, "%d of %d core%s for this process, %d NUMA node%s, kernels: %s\n", machine->usable_cores,
             machine->cores, plural(machine->cores), machine->numa_nodes, plural(machine->numa_nodes),
             mr_kernel_isa());
    if (machine->memory_bytes) {
        begin("", stream);
        mr_print(stream, "%s memory", mr_words_bytes(machine->memory_bytes, all));
        if (machine->available_bytes) /* unknown without /proc */
            mr_print(stream, ", %s available", mr_words_bytes(machine->available_bytes, available));
        putc('\n', stream);
    }
}

/* A board's decoders, and whether there may be others. */
static void print_board(const mr_machine *machine, FILE *stream) {
    for (size_t i = 0; i < machine->decoder_count; i++) {
        const mr_machine_decoder *one = &machine->decoders[i];
        begin("", stream);
        mr_print(stream, "V4L2 decodes %s", one->codec);
        if (one->max_width)
            mr_print(stream, " up to %ux%u", one->max_width, one->max_height);
        mr_print(stream, " (%s, %s)\n", one->node, one->card);
    }
    if (machine->closed_node && !machine->decoder_count) {
        begin("", stream);
        mr_print(stream, "note: this user may not open %s, which could be a decoder\n", machine->closed_node);
        begin("", stream);
        mr_print(stream, "  to mend it: add the user to the group that `ls -l %s` shows\n", machine->closed_node);
    }
}

static void print_findings(const mr_machine_finding *findings, size_t count, const char *name, FILE *stream) {
    for (size_t i = 0; i < count; i++) {
        begin(i ? "" : name, stream);
        mr_print(stream, "%s: %s\n", findings[i].fatal ? "cannot be used" : "note", findings[i].what);
        begin("", stream);
        mr_print(stream, "  to mend it: %s\n", findings[i].mend);
    }
}

static void print_memory(const mr_machine_gpu *gpu, FILE *stream) {
    char all[MR_WORDS], available[MR_WORDS];
    begin("", stream);
    mr_print(stream, "%s memory", mr_words_bytes(gpu->memory_bytes, all));
    if (gpu->free_bytes)
        mr_print(stream, ", %s free", mr_words_bytes(gpu->free_bytes, available));
    mr_print(stream, "; compute capability %d.%d, %d multiprocessor%s, %d copy engine%s\n", gpu->major, gpu->minor,
             gpu->multiprocessors, plural(gpu->multiprocessors), gpu->copy_engines, plural(gpu->copy_engines));
}

static void print_load(const mr_machine_gpu *gpu, FILE *stream) {
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

static void print_decoders(const mr_machine_gpu *gpu, FILE *stream) {
    if (!gpu->codec_count)
        return;
    begin("", stream);
    fputs("decodes ", stream);
    for (size_t i = 0; i < gpu->codec_count; i++)
        mr_print(stream, "%s%s up to %ux%u%s", i ? ", " : "", gpu->codecs[i].name, gpu->codecs[i].max_width,
                 gpu->codecs[i].max_height, gpu->codecs[i].ten_bits ? " (8 and 10 bits)" : "");
    fputc('\n', stream);
}

static void print_gpu(const mr_machine_gpu *gpu, FILE *stream) {
    begin(gpu->name, stream);
    mr_print(stream, "%s%s%s\n", gpu->model, gpu->uuid ? ", cuda:" : "", gpu->uuid ? gpu->uuid : "");
    print_memory(gpu, stream);
    print_load(gpu, stream);
    print_decoders(gpu, stream);
    print_findings(gpu->findings, gpu->finding_count, "", stream);
}

static bool reaches(const mr_machine_gpu *gpu, size_t other) {
    for (size_t i = 0; i < gpu->peer_count; i++)
        if ((size_t)gpu->peers[i] == other)
            return true;
    return false;
}

/* Prints which GPUs can access each other's memory, if there are several. */
static void print_peers(const mr_machine *machine, FILE *stream) {
    if (machine->gpu_count < 2)
        return;
    begin("peers", stream);
    fputs("from \\ to", stream);
    for (size_t to = 0; to < machine->gpu_count; to++)
        fprintf(stream, " %4zu", to);
    fputc('\n', stream);
    for (size_t from = 0; from < machine->gpu_count; from++) {
        begin("", stream);
        fprintf(stream, "%9zu", from);
        for (size_t to = 0; to < machine->gpu_count; to++)
            mr_print(stream, " %4s", from == to ? "-" : reaches(&machine->gpus[from], to) ? "yes" : "no");
        fputc('\n', stream);
    }
}

static void print_driver(const mr_machine *machine, FILE *stream) {
    if (!machine->driver_cuda)
        return;
    begin("nvidia", stream);
    mr_print(stream, "driver %s, which runs CUDA up to %d.%d", machine->driver ? machine->driver : "of unknown version",
             machine->driver_cuda / 1000, machine->driver_cuda % 1000 / 10);
    if (machine->build_cuda)
        fprintf(stream, "; this build is made with CUDA %d.%d", machine->build_cuda / 1000,
                machine->build_cuda % 1000 / 10);
    fputc('\n', stream);
}

void mr_devices_print(const mr_machine *machine, FILE *stream) {
    print_host(machine, stream);
    print_board(machine, stream);
    for (size_t i = 0; i < machine->gpu_count; i++)
        print_gpu(&machine->gpus[i], stream);
    print_peers(machine, stream);
    print_driver(machine, stream);
    print_findings(machine->findings, machine->finding_count, "cuda:N", stream);
    begin("sim:N", stream);
    fputs("simulated accelerators, any number, always there\n", stream);
}
