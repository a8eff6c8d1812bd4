/* millrace devices --json. */
#include "engine/base/json.h"
#include "millrace/plan.h"
#include "tools/millrace/devices/devices.h"

/* null if the value is not known, that is, below `least`. */
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

static void put_board(yajl_gen json, const mr_machine *machine) {
    MR_JSON_ARRAY(json, "decoders")
        for (size_t i = 0; i < machine->decoder_count; i++) {
            const mr_machine_decoder *one = &machine->decoders[i];
            MR_JSON_MAP(json, NULL) {
                mr_json_text(json, "codec", one->codec);
                put_known(json, "max_width", one->max_width, 1);
                put_known(json, "max_height", one->max_height, 1);
                mr_json_text(json, "node", one->node);
                mr_json_text(json, "card", one->card);
            }
        }
    mr_json_text(json, "closed_node", machine->closed_node);
}

static void put_host(yajl_gen json, const mr_machine *machine) {
    MR_JSON_MAP(json, "cpu") {
        mr_json_text(json, "name", "cpu");
        mr_json_text(json, "model", machine->processor);
        mr_json_integer(json, "cores", machine->cores);
        mr_json_integer(json, "usable_cores", machine->usable_cores);
        mr_json_integer(json, "numa_nodes", machine->numa_nodes);
        mr_json_text(json, "kernels", mr_kernel_isa());
        put_known(json, "memory_bytes", (int64_t)machine->memory_bytes, 1);
        put_known(json, "available_bytes", (int64_t)machine->available_bytes, 1);
        put_board(json, machine);
    }
}

static void put_findings(yajl_gen json, const mr_machine_finding *findings, size_t count) {
    MR_JSON_ARRAY(json, "findings")
        for (size_t i = 0; i < count; i++)
            MR_JSON_MAP(json, NULL) {
                mr_json_text(json, "code", findings[i].code);
                mr_json_bool(json, "fatal", findings[i].fatal);
                mr_json_text(json, "what", findings[i].what);
                mr_json_text(json, "mend", findings[i].mend);
            }
}

static void put_decoders(yajl_gen json, const mr_machine_gpu *gpu) {
    MR_JSON_ARRAY(json, "decoders")
        for (size_t i = 0; i < gpu->codec_count; i++)
            MR_JSON_MAP(json, NULL) {
                mr_json_text(json, "codec", gpu->codecs[i].name);
                mr_json_integer(json, "max_width", gpu->codecs[i].max_width);
                mr_json_integer(json, "max_height", gpu->codecs[i].max_height);
                mr_json_bool(json, "ten_bits", gpu->codecs[i].ten_bits);
            }
}

static void put_peers(yajl_gen json, const mr_machine_gpu *gpu) {
    MR_JSON_ARRAY(json, "peers")
        for (size_t i = 0; i < gpu->peer_count; i++)
            mr_json_integer(json, NULL, gpu->peers[i]);
}

static void put_gpu(yajl_gen json, const mr_machine_gpu *gpu) {
    char text[32];
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "name", gpu->name);
        mr_json_text(json, "model", gpu->model);
        mr_json_text(json, "uuid", gpu->uuid);
        mr_json_bool(json, "usable", gpu->usable);
        put_known(json, "memory_bytes", (int64_t)gpu->memory_bytes, 1);
        put_known(json, "free_bytes", (int64_t)gpu->free_bytes, 1);
        snprintf(text, sizeof text, "%d.%d", gpu->major, gpu->minor);
        mr_json_text(json, "compute_capability", text);
        mr_json_integer(json, "multiprocessors", gpu->multiprocessors);
        mr_json_integer(json, "copy_engines", gpu->copy_engines);
        put_decoders(json, gpu);
        put_peers(json, gpu);
        put_known(json, "utilisation", gpu->utilisation, 0);
        put_known(json, "memory_utilisation", gpu->memory_utilisation, 0);
        put_known(json, "celsius", gpu->celsius, 0);
        MR_JSON_ARRAY(json, "slowed_by")
            for (size_t i = 0; i < gpu->slowed_count; i++)
                mr_json_text(json, NULL, gpu->slowed_by[i]);
        put_switch(json, "persistence", gpu->persistence);
        put_switch(json, "mig", gpu->mig);
        put_findings(json, gpu->findings, gpu->finding_count);
    }
}

int mr_devices_put_json(const mr_machine *machine, FILE *stream) {
    yajl_gen json = mr_json_create(true);
    if (!json)
        return MR_ERROR_MEMORY;
    MR_JSON_MAP(json, NULL) {
        put_host(json, machine);
        MR_JSON_MAP(json, "cuda") {
            mr_json_text(json, "driver", machine->driver);
            put_version(json, "driver_cuda", machine->driver_cuda);
            put_version(json, "build_cuda", machine->build_cuda);
            mr_json_integer(json, "cards", machine->cards);
            MR_JSON_ARRAY(json, "devices")
                for (size_t i = 0; i < machine->gpu_count; i++)
                    put_gpu(json, &machine->gpus[i]);
            put_findings(json, machine->findings, machine->finding_count);
        }
        MR_JSON_MAP(json, "sim") {
            mr_json_text(json, "name", "sim:N");
            mr_json_bool(json, "usable", true);
            MR_JSON_ARRAY(json, "like")
                for (size_t i = 0; mr_view_model(i); i++)
                    mr_json_text(json, NULL, mr_view_model(i)->name);
        }
    }
    return mr_json_finish(json, stream);
}
