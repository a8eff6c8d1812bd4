/* millrace devices --json. */
#include "engine/device/sim/card.h"
#include "kernels/choice.h"
#include "kernels/kernels.h"
#include "tools/millrace/devices/devices.h"

/* null if it is not known, that is, below `least`. */
static void put_known(yajl_gen json, const char *key, int64_t value, int64_t least) {
    mr_json_key(json, key);
    if (value >= least)
        mr_json_integer(json, NULL, value);
    else
        yajl_gen_null(json);
}

static void put_switch(yajl_gen json, const char *key, int value) {
    mr_json_key(json, key);
    if (value >= 0)
        mr_json_bool(json, NULL, value > 0);
    else
        yajl_gen_null(json);
}

/* 13000 -> "13.0" */
static void put_version(yajl_gen json, const char *key, int version) {
    char text[32];
    snprintf(text, sizeof text, "%d.%d", version / 1000, version % 1000 / 10);
    mr_json_text(json, key, version ? text : NULL);
}

static void put_kernels(yajl_gen json, const mr_kernels *kernels) {
    mr_json_text(json, "kernels", mr_isa_name(kernels->isa));
    mr_json_open_map(json, "preprocess_kernels");
    for (int step = 0; step < MR_KERNEL_STEPS; step++)
        mr_json_text(json, mr_kernel_step_name((mr_kernel_step)step), mr_isa_name(kernels->step[step]));
    yajl_gen_map_close(json);
}

static void put_host(yajl_gen json, const mr_host *host) {
    mr_json_open_map(json, "cpu");
    mr_json_text(json, "name", "cpu");
    mr_json_text(json, "model", *host->model ? host->model : NULL);
    mr_json_integer(json, "cores", host->cores);
    mr_json_integer(json, "usable_cores", host->usable);
    mr_json_integer(json, "numa_nodes", host->nodes);
    put_kernels(json, mr_kernels_get());
    put_known(json, "memory_bytes", (int64_t)host->memory_bytes, 1);
    put_known(json, "available_bytes", (int64_t)host->available_bytes, 1);
    yajl_gen_map_close(json);
}

static void put_findings(yajl_gen json, const mr_gpu_finding *findings, int count) {
    mr_json_open_array(json, "findings");
    for (int i = 0; i < count; i++) {
        mr_json_open_map(json, NULL);
        mr_json_text(json, "code", findings[i].code);
        mr_json_bool(json, "fatal", findings[i].fatal);
        mr_json_text(json, "what", findings[i].what);
        mr_json_text(json, "mend", findings[i].mend);
        yajl_gen_map_close(json);
    }
    yajl_gen_array_close(json);
}

static void put_decoders(yajl_gen json, const mr_gpu *gpu) {
    mr_json_open_array(json, "decoders");
    for (int i = 0; i < gpu->codec_count; i++) {
        mr_json_open_map(json, NULL);
        mr_json_text(json, "codec", gpu->codecs[i].name);
        mr_json_integer(json, "max_width", gpu->codecs[i].max_width);
        mr_json_integer(json, "max_height", gpu->codecs[i].max_height);
        mr_json_bool(json, "ten_bits", gpu->codecs[i].ten_bits);
        yajl_gen_map_close(json);
    }
    yajl_gen_array_close(json);
}

static void put_numbers(yajl_gen json, const char *key, uint64_t bits) {
    mr_json_open_array(json, key);
    for (int i = 0; i < MR_GPU_MOST; i++)
        if (bits >> i & 1)
            mr_json_integer(json, NULL, i);
    yajl_gen_array_close(json);
}

static void put_gpu(yajl_gen json, const mr_gpus *gpus, const mr_gpu *gpu) {
    char text[32];
    mr_json_open_map(json, NULL);
    snprintf(text, sizeof text, "cuda:%d", gpu->index);
    mr_json_text(json, "name", text);
    mr_json_text(json, "model", gpu->name);
    mr_json_text(json, "uuid", *gpu->uuid ? gpu->uuid : NULL);
    mr_json_bool(json, "usable", mr_gpu_usable(gpus, gpu));
    put_known(json, "memory_bytes", (int64_t)gpu->memory_bytes, 1);
    put_known(json, "free_bytes", (int64_t)gpu->free_bytes, 1);
    snprintf(text, sizeof text, "%d.%d", gpu->major, gpu->minor);
    mr_json_text(json, "compute_capability", text);
    mr_json_integer(json, "multiprocessors", gpu->multiprocessors);
    mr_json_integer(json, "copy_engines", gpu->copy_engines);
    put_decoders(json, gpu);
    put_numbers(json, "peers", gpu->peers);
    put_known(json, "utilisation", gpu->utilisation, 0);
    put_known(json, "memory_utilisation", gpu->memory_utilisation, 0);
    put_known(json, "celsius", gpu->celsius, 0);
    mr_json_open_array(json, "slowed_by");
    for (int i = 0; mr_gpu_slowed_by(gpu->slowed, i); i++)
        mr_json_text(json, NULL, mr_gpu_slowed_by(gpu->slowed, i));
    yajl_gen_array_close(json);
    put_switch(json, "persistence", gpu->persistence);
    put_switch(json, "mig", gpu->mig);
    put_findings(json, gpu->findings, gpu->finding_count);
    yajl_gen_map_close(json);
}

void mr_devices_put_json(yajl_gen json, const mr_host *host, const mr_gpus *gpus) {
    put_host(json, host);
    mr_json_open_map(json, "cuda");
    mr_json_text(json, "driver", *gpus->driver ? gpus->driver : NULL);
    put_version(json, "driver_cuda", gpus->driver_cuda);
    put_version(json, "build_cuda", gpus->runtime);
    mr_json_integer(json, "cards", gpus->cards);
    mr_json_open_array(json, "devices");
    for (int i = 0; i < gpus->count; i++)
        put_gpu(json, gpus, &gpus->gpu[i]);
    yajl_gen_array_close(json);
    put_findings(json, gpus->findings, gpus->finding_count);
    yajl_gen_map_close(json);
    mr_json_open_map(json, "sim");
    mr_json_text(json, "name", "sim:N");
    mr_json_bool(json, "usable", true);
    mr_json_open_array(json, "like");
    for (size_t i = 0; mr_card_name(i); i++)
        mr_json_text(json, NULL, mr_card_name(i));
    yajl_gen_array_close(json);
    yajl_gen_map_close(json);
}
