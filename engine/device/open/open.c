#include "engine/device/open/open.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device/cuda/cuda.h"
#include "engine/device/probe/gpu.h"
#include "engine/device/sim/sim.h"

/* The number after "kind:", or 0 if there is none; -1 if it is malformed or the name is of another kind. Sets `rest` to
 * the text after it. */
static int index_of(const char *name, const char *kind, const char **rest) {
    size_t length = strlen(kind);
    if (strncmp(name, kind, length) != 0)
        return -1;
    *rest = name + length;
    if (**rest != ':')
        return 0;
    char *end;
    long index = strtol(*rest + 1, &end, 10);
    if (!isdigit((unsigned char)(*rest)[1]) || index > 1023)
        return -1;
    *rest = end;
    return (int)index;
}

/* For a simulated device whose name sets no times and no rates. */
enum { LEAST_DELAY_NS = 1000, MOST_DELAY_NS = 200000 };

static int open_sim(mr_device **device, int index, const char *rest, uint64_t seed, bool manual) {
    mr_sim_params params = {
        .index = index,
        .seed = seed ? seed + (uint64_t)index : (uint64_t)index + 1,
        .manual = manual,
        .min_delay_ns = -1,
        .max_delay_ns = -1,
    };
    int status = mr_sim_parse(rest, &params);
    bool timed = params.upload_rate || params.download_rate || params.compute_rate || params.call_ns;
    if (params.max_delay_ns < 0)
        params.max_delay_ns = timed ? 0 : MOST_DELAY_NS;
    if (params.min_delay_ns < 0)
        params.min_delay_ns = timed || params.max_delay_ns < LEAST_DELAY_NS ? 0 : LEAST_DELAY_NS;
    return status ? status : mr_sim_create(device, &params);
}

/* The number for the GPU that "cuda:N" or "cuda:GPU-..." names. MR_ERROR_CONFIG if the name has neither form, and
 * errors from mr_gpu_index_of. */
static int cuda_index(const char *name, int *index) {
    const char *rest = "";
    *index = index_of(name, "cuda", &rest);
    if (*index >= 0 && !*rest)
        return MR_OK;
    if (strncmp(name, "cuda:", 5) != 0 || !mr_gpu_is_uuid(name + 5))
        return MR_ERROR_CONFIG;
    mr_gpu_access access;
    mr_gpu_access_open(&access);
    int status = mr_gpu_index_of(&access, name + 5, index);
    mr_gpu_access_close(&access);
    return status;
}

static int unknown_device(const char *name) {
    return mr_fail(MR_ERROR_CONFIG, "there is no device \"%s\"; use cpu, cuda:N, cuda:GPU-<uuid> or sim:N", name);
}

int mr_device_check_name(const char *name) {
    mr_sim_params params = {0};
    const char *rest = "";
    if (strlen(name) >= MR_DEVICE_NAME || strcmp(name, "cpu") == 0)
        return strcmp(name, "cpu") == 0 ? MR_OK : unknown_device(name);
    if (index_of(name, "sim", &rest) >= 0)
        return mr_sim_parse(rest, &params);
    if (strncmp(name, "cuda:", 5) == 0 && mr_gpu_is_uuid(name + 5))
        return MR_OK;
    return index_of(name, "cuda", &rest) >= 0 && !*rest ? MR_OK : unknown_device(name);
}

const char *mr_device_number(const char *name, char text[MR_DEVICE_NAME]) {
    int index;
    if (strncmp(name, "cuda:", 5) == 0 && mr_gpu_is_uuid(name + 5) && cuda_index(name, &index) == MR_OK)
        snprintf(text, MR_DEVICE_NAME, "cuda:%d", index);
    else
        snprintf(text, MR_DEVICE_NAME, "%s", name);
    return text;
}

int mr_device_open(mr_device **device, const char *name, uint64_t seed, bool manual) {
    const char *rest = "";
    *device = NULL;
    if (strcmp(name, "cpu") == 0)
        return mr_cpu_create(device);
    int index = index_of(name, "sim", &rest);
    if (index >= 0)
        return open_sim(device, index, rest, seed, manual);
    int status = cuda_index(name, &index);
    if (status)
        return status == MR_ERROR_CONFIG ? unknown_device(name) : status;
    return mr_cuda_create(device, index);
}

int mr_device_probe(const char *name, uint64_t *memory_bytes) {
    const char *rest = "";
    mr_sim_params params = {0};
    int index, status = cuda_index(name, &index);
    *memory_bytes = 0;
    if (status != MR_ERROR_CONFIG)
        return status ? status : mr_cuda_probe(index, memory_bytes);
    status = index_of(name, "sim", &rest) >= 0 ? mr_sim_parse(rest, &params) : MR_OK;
    *memory_bytes = (uint64_t)params.memory_bytes;
    return status;
}

int mr_device_capability(const char *name) {
    int index;
    return cuda_index(name, &index) == MR_OK ? mr_cuda_capability(index) : 0;
}

bool mr_device_card(const char *name, mr_card *card) {
    const char *rest = "";
    mr_sim_params params = {0};
    if (index_of(name, "sim", &rest) < 0 || mr_sim_parse(rest, &params) || !params.card.name[0])
        return false;
    *card = params.card;
    return true;
}
