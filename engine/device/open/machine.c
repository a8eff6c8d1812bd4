#include "engine/device/open/machine.h"

#include "engine/base/arena.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/device/host.h"
#include "engine/device/probe/board.h"
#include "millrace/status.h"

typedef struct machine_view {
    mr_machine shown; /* must be first: programs have its address */
    mr_host host;
    mr_board board;
    mr_gpus gpus;     /* the texts are shown */
    mr_arena arena;   /* for all arrays */
} machine_view;

static const char *known(const char *text) {
    return *text ? text : NULL;
}

static int show_findings(mr_arena *arena, const mr_gpu_finding *found, int count, const mr_machine_finding **shown) {
    mr_machine_finding *findings = mr_arena_array(arena, (size_t)count, sizeof *findings);
    for (int i = 0; findings && i < count; i++)
        findings[i] = (mr_machine_finding){found[i].code, found[i].fatal, found[i].what, found[i].mend};
    *shown = findings;
    return findings ? MR_OK : MR_ERROR_MEMORY;
}

static int show_codecs(mr_arena *arena, const mr_gpu *gpu, mr_machine_gpu *shown) {
    mr_machine_codec *codecs = mr_arena_array(arena, (size_t)gpu->codec_count, sizeof *codecs);
    for (int i = 0; codecs && i < gpu->codec_count; i++) {
        const mr_gpu_codec *codec = &gpu->codecs[i];
        codecs[i] = (mr_machine_codec){codec->name, codec->max_width, codec->max_height, codec->ten_bits};
    }
    shown->codec_count = (size_t)gpu->codec_count;
    shown->codecs = codecs;
    return codecs ? MR_OK : MR_ERROR_MEMORY;
}

static int show_peers(mr_arena *arena, const mr_gpu *gpu, mr_machine_gpu *shown) {
    int *peers = mr_arena_array(arena, MR_GPU_MOST, sizeof *peers);
    for (int i = 0; peers && i < MR_GPU_MOST; i++)
        if (gpu->peers >> i & 1)
            peers[shown->peer_count++] = i;
    shown->peers = peers;
    return peers ? MR_OK : MR_ERROR_MEMORY;
}

static int show_reasons(mr_arena *arena, const mr_gpu *gpu, mr_machine_gpu *shown) {
    while (mr_gpu_slowed_by(gpu->slowed, (int)shown->slowed_count))
        shown->slowed_count++;
    const char **reasons = mr_arena_array(arena, shown->slowed_count, sizeof *reasons);
    for (size_t i = 0; reasons && i < shown->slowed_count; i++)
        reasons[i] = mr_gpu_slowed_by(gpu->slowed, (int)i);
    shown->slowed_by = reasons;
    return reasons ? MR_OK : MR_ERROR_MEMORY;
}

static int show_gpu(machine_view *view, const mr_gpu *gpu, mr_machine_gpu *shown) {
    *shown = (mr_machine_gpu){
        .name = mr_arena_print(&view->arena, "cuda:%d", gpu->index),
        .model = gpu->name,
        .uuid = known(gpu->uuid),
        .usable = mr_gpu_usable(&view->gpus, gpu),
        .memory_bytes = gpu->memory_bytes,
        .free_bytes = gpu->free_bytes,
        .major = gpu->major,
        .minor = gpu->minor,
        .multiprocessors = gpu->multiprocessors,
        .copy_engines = gpu->copy_engines,
        .utilisation = gpu->utilisation,
        .memory_utilisation = gpu->memory_utilisation,
        .celsius = gpu->celsius,
        .persistence = gpu->persistence,
        .mig = gpu->mig,
        .finding_count = (size_t)gpu->finding_count,
    };
    if (!shown->name || show_codecs(&view->arena, gpu, shown) || show_peers(&view->arena, gpu, shown) ||
        show_reasons(&view->arena, gpu, shown))
        return MR_ERROR_MEMORY;
    return show_findings(&view->arena, gpu->findings, gpu->finding_count, &shown->findings);
}

static int show_decoders(machine_view *view) {
    const mr_board *board = &view->board;
    mr_machine_decoder *decoders = mr_arena_array(&view->arena, (size_t)board->count, sizeof *decoders);
    for (int i = 0; decoders && i < board->count; i++) {
        const mr_board_decoder *found = &board->decoder[i];
        decoders[i] =
            (mr_machine_decoder){found->codec, found->max_width, found->max_height, found->node, found->card};
    }
    view->shown.decoder_count = (size_t)board->count;
    view->shown.decoders = decoders;
    view->shown.closed_node = known(board->closed);
    return decoders ? MR_OK : MR_ERROR_MEMORY;
}

static int show(machine_view *view) {
    const mr_host *host = &view->host;
    const mr_gpus *found = &view->gpus;
    mr_machine_gpu *gpus = mr_arena_array(&view->arena, (size_t)found->count, sizeof *gpus);
    view->shown = (mr_machine){
        .processor = known(host->model),
        .cores = host->cores,
        .usable_cores = host->usable,
        .numa_nodes = host->nodes,
        .memory_bytes = host->memory_bytes,
        .available_bytes = host->available_bytes,
        .driver = known(found->driver),
        .driver_cuda = found->driver_cuda,
        .build_cuda = found->runtime,
        .cards = found->cards,
        .gpu_count = (size_t)found->count,
        .gpus = gpus,
        .finding_count = (size_t)found->finding_count,
    };
    int status = gpus ? show_decoders(view) : MR_ERROR_MEMORY;
    for (int i = 0; i < found->count && !status; i++)
        status = show_gpu(view, &found->gpu[i], &gpus[i]);
    return status ? status
                  : show_findings(&view->arena, found->findings, found->finding_count, &view->shown.findings);
}

int mr_machine_open_with(const mr_machine **machine, const mr_gpu_access *access) {
    machine_view *view = mr_calloc(1, sizeof *view);
    *machine = view ? &view->shown : NULL;
    if (!view)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a description of this machine");
    mr_host_probe(&view->host);
    mr_board_probe(&view->board);
    int status = mr_gpus_probe(access, &view->gpus);
    status = status ? status : show(view);
    if (status)
        mr_machine_close(machine);
    return status;
}

int mr_machine_open(const mr_machine **machine) {
    MR_PLAIN_NUMBERS;
    mr_gpu_access access;
    mr_gpu_access_open(&access);
    int status = mr_machine_open_with(machine, &access);
    mr_gpu_access_close(&access);
    return status;
}

void mr_machine_close(const mr_machine **machine) {
    machine_view *view = (machine_view *)(uintptr_t)*machine;
    if (view) {
        mr_gpus_fini(&view->gpus);
        mr_arena_fini(&view->arena);
        mr_free(view);
    }
    *machine = NULL;
}
