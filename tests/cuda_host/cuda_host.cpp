/* The imitated CUDA runtime's calls: devices, memory, copies, streams, events and graphs. blocks.cpp has launches. */
#include "cuda_runtime_api.h"

#include <assert.h>
#include <atomic>
#include <map>
#include <mutex>
#include <nvtx3/nvToolsExt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <vector>

extern "C" {
#include "engine/device/probe/gpu.h"
}

struct CUgraph_st {
    std::vector<std::function<void()>> work;
};
struct CUgraphExec_st {
    std::vector<std::function<void()>> work;
};
struct CUstream_st {
    CUgraph_st *recorded; /* to this; NULL: what is launched runs */
    int device, priority;
};
struct CUevent_st {
    int64_t recorded_ns;
    int device; /* the stream that recorded it */
    int asked_in; /* the round in which it was last asked for; guarded by asked_lock */
};

static const int DEVICES = 2;
static thread_local int current;
static thread_local cudaError_t last_error;
static std::atomic<int> peers[DEVICES][DEVICES];
static std::atomic<bool> held, lacking;
static std::atomic<unsigned long long> allocations, waits, pageable, uploads, downloads, host_functions, launches,
    graph_launches, records, stream_waits, queries;

/* ---- what goes wrong --------------------------------------------------------------------------------------------- */

/* Work until the device fails; 0: it does not fail. */
static std::atomic<long> left[DEVICES];
static std::atomic<bool> broken[DEVICES];

static bool is_broken(int device) {
    if (!broken[device] && left[device] > 0 && --left[device] == 0)
        broken[device] = true;
    return broken[device];
}

static cudaError_t state_of(int device) {
    return broken[device] ? cudaErrorIllegalAddress : cudaSuccess;
}

static void run_on(int device, const std::function<void()> &work) {
    if (!is_broken(device))
        work();
}

void mr_host_do(void *stream, std::function<void()> work) {
    CUstream_st *on = static_cast<CUstream_st *>(stream);
    if (on && on->recorded)
        on->recorded->work.push_back(work);
    else
        run_on(on ? on->device : current, work);
}

/* As mr_host_do, for libraries in C that find it in the program: the arguments are copied. */
extern "C" void mr_host_do_c(void *stream, void (*function)(const void *arguments), const void *arguments,
                             size_t bytes);
void mr_host_do_c(void *stream, void (*function)(const void *arguments), const void *arguments, size_t bytes) {
    const unsigned char *first = static_cast<const unsigned char *>(arguments);
    std::vector<unsigned char> copy(first, first + bytes);
    mr_host_do(stream, [=] { function(copy.data()); });
}

bool mr_host_can_launch() {
    last_error = lacking ? cudaErrorNoKernelImageForDevice : last_error;
    launches++;
    return !lacking;
}

extern "C" {

void mr_host_break(int device, long after) {
    left[device] = after;
    broken[device] = false;
}

void mr_host_lack_kernels(bool lacks) {
    lacking = lacks;
}

mr_host_counts mr_host_count(void) {
    return {allocations,    waits,    pageable,       uploads, downloads,    host_functions,
            launches,       graph_launches, records, stream_waits, queries};
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

/* The newest that the build has kernels for; devices refuse a card without kernels. */
static int newest_capability(void) {
    int newest = 90;
    for (const int *one = mr_gpu_architectures(); *one; one++)
        newest = *one;
    return newest;
}

static std::atomic<int> capability{newest_capability()}, driver{CUDART_VERSION};

void mr_host_be(int has, int runs) {
    capability = has ? has : newest_capability();
    driver = runs;
}

cudaError_t cudaDriverGetVersion(int *version) {
    *version = driver;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count) {
    bool old = driver / 1000 < CUDART_VERSION / 1000;
    *count = old ? 0 : DEVICES;
    return old ? cudaErrorInsufficientDriver : cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    if (device < 0 || device >= DEVICES)
        return cudaErrorInvalidValue;
    current = device;
    return state_of(device);
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int other) {
    *can = device != other;
    return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int other, unsigned) {
    return peers[current][other]++ ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess;
}

static std::mutex asked_lock;
static int round_of_asking, asked;

void mr_host_hold(bool holds) {
    std::lock_guard<std::mutex> lock(asked_lock);
    if (holds && !held) {
        round_of_asking++;
        asked = 0;
    }
    held = holds;
}

int mr_host_asked(void) {
    std::lock_guard<std::mutex> lock(asked_lock);
    return asked;
}

static std::atomic<bool> stalled;
static std::atomic<int> stuck;

void mr_host_stall(bool stalls) {
    stalled = stalls;
}

bool mr_host_is_stalled(void) {
    return stuck > 0;
}

static void answer_late(void) {
    enum { TRIES = 4000, NAP_NS = 1000000 };
    struct timespec nap = {0, NAP_NS};
    stuck++;
    for (int i = 0; stalled && i < TRIES; i++)
        nanosleep(&nap, NULL);
    stuck--;
}

int mr_host_peers(int device, int other) {
    return peers[device][other];
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *about, int device) {
    *about = {"the host, as a CUDA device", (size_t)1 << 30, capability / 10, capability % 10, 1 << 20};
    return device >= 0 && device < DEVICES ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaGetLastError(void) {
    cudaError_t told = last_error;
    last_error = cudaSuccess;
    return told;
}

const char *cudaGetErrorString(cudaError_t error) {
    switch (error) {
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorNoKernelImageForDevice:
        return "no kernel image is available for execution on the device";
    case cudaErrorIllegalAddress:
        return "an illegal memory access was encountered";
    default:
        return "invalid argument";
    }
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Blocks by where they end; device -1: pinned. Never destroyed: what a broken device cannot free stays to be found. */
struct block {
    const char *data;
    int device;
};
static auto &blocks = *new std::map<const char *, block>;
static std::mutex blocks_lock;

static cudaError_t allocate(void **data, size_t bytes, int device) {
    allocations++;
    *data = malloc(bytes);
    if (!*data)
        return cudaErrorMemoryAllocation;
    memset(*data, 0xcd, bytes);
    std::lock_guard<std::mutex> lock(blocks_lock);
    blocks[static_cast<char *>(*data) + bytes] = {static_cast<char *>(*data), device};
    return cudaSuccess;
}

static void give_back(void *data) {
    allocations++;
    std::lock_guard<std::mutex> lock(blocks_lock);
    auto found = blocks.upper_bound(static_cast<char *>(data));
    assert(!data || (found != blocks.end() && found->second.data == data));
    if (data)
        blocks.erase(found);
    free(data);
}

/* The device whose memory that is; -1 pinned, -2 other memory. */
static int device_of(const void *data) {
    std::lock_guard<std::mutex> lock(blocks_lock);
    auto found = blocks.upper_bound(static_cast<const char *>(data));
    return found != blocks.end() && found->second.data <= data ? found->second.device : -2;
}

cudaError_t cudaMalloc(void **data, size_t bytes) {
    return state_of(current) ? state_of(current) : allocate(data, bytes, current);
}

cudaError_t cudaFree(void *data) {
    give_back(data);
    return state_of(current);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *about, const void *data) {
    int device = device_of(data);
    *about = {device >= 0 ? cudaMemoryTypeDevice : device == -1 ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered,
              device};
    return cudaSuccess;
}

cudaError_t cudaMallocAsync(void **data, size_t bytes, cudaStream_t) {
    return cudaMalloc(data, bytes);
}

cudaError_t cudaFreeAsync(void *data, cudaStream_t) {
    return cudaFree(data);
}

cudaError_t cudaHostAlloc(void **data, size_t bytes, unsigned) {
    return state_of(current) ? state_of(current) : allocate(data, bytes, -1);
}

cudaError_t cudaFreeHost(void *data) {
    give_back(data);
    return state_of(current);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind) {
    waits++;
    memcpy(to, from, bytes);
    return cudaSuccess;
}

static void count_copy(const void *to, const void *from) {
    int there = device_of(to), here = device_of(from);
    pageable += there == -2 || here == -2;
    uploads += there >= 0 && here < 0;
    downloads += there < 0 && here >= 0;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
    count_copy(to, from);
    mr_host_do(stream, [=] { memcpy(to, from, bytes); });
    return cudaSuccess;
}

static void copy_rows(void *to, size_t to_stride, const void *from, size_t from_stride, size_t bytes, size_t rows) {
    for (size_t row = 0; row < rows; row++)
        memcpy(static_cast<char *>(to) + row * to_stride, static_cast<const char *>(from) + row * from_stride, bytes);
}

/* From device to device only within one device; the real runtime's documentation leaves others undefined. */
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_stride, const void *from, size_t from_stride, size_t bytes,
                              size_t rows, cudaMemcpyKind, cudaStream_t stream) {
    int there = device_of(to), here = device_of(from);
    if (to_stride < bytes || from_stride < bytes || (there >= 0 && here >= 0 && there != here))
        return cudaErrorInvalidValue;
    count_copy(to, from);
    mr_host_do(stream, [=] { copy_rows(to, to_stride, from, from_stride, bytes, rows); });
    return cudaSuccess;
}

cudaError_t cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream) {
    const struct cudaMemcpy3DPeerParms copy = *p;
    if (device_of(copy.dstPtr.ptr) != copy.dstDevice || device_of(copy.srcPtr.ptr) != copy.srcDevice ||
        copy.extent.depth != 1)
        return cudaErrorInvalidValue;
    mr_host_do(stream, [=] {
        copy_rows(copy.dstPtr.ptr, copy.dstPtr.pitch, copy.srcPtr.ptr, copy.srcPtr.pitch, copy.extent.width,
                  copy.extent.height);
    });
    return cudaSuccess;
}

cudaError_t cudaMemset(void *to, int value, size_t bytes) {
    memset(to, value, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
    launches++;
    mr_host_do(stream, [=] { memset(to, value, bytes); });
    return cudaSuccess;
}

enum { GREATEST_PRIORITY = -5 };
static std::atomic<bool> have_priorities{true};
static std::atomic<int> streams, urgent_streams;

void mr_host_have_priorities(bool have) {
    have_priorities = have;
}

int mr_host_streams(bool urgent) {
    return urgent ? urgent_streams : streams;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    *least = 0;
    *greatest = have_priorities ? GREATEST_PRIORITY : 0;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned, int priority) {
    allocations++;
    *stream = static_cast<cudaStream_t>(calloc(1, sizeof(struct CUstream_st)));
    if (!*stream)
        return cudaErrorMemoryAllocation;
    (*stream)->device = current;
    (*stream)->priority = priority;
    streams++;
    urgent_streams += priority == GREATEST_PRIORITY;
    return state_of(current);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    return cudaStreamCreateWithFlags(stream, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    streams--;
    urgent_streams -= stream->priority == GREATEST_PRIORITY;
    free(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    waits++;
    return state_of(stream->device);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
    stream_waits++;
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
    allocations++;
    *event = static_cast<cudaEvent_t>(calloc(1, sizeof(struct CUevent_st)));
    return *event ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    struct timespec now;
    event->device = stream->device;
    records++;
    clock_gettime(CLOCK_MONOTONIC, &now);
    event->recorded_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
    *ms = static_cast<float>(static_cast<double>(to->recorded_ns - from->recorded_ns) * 1e-6);
    return from->recorded_ns && to->recorded_ns ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaEventSynchronize(cudaEvent_t) {
    waits++;
    return cudaSuccess;
}

static thread_local enum cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    enum cudaStreamCaptureMode before = capture_mode;
    capture_mode = *mode;
    *mode = before;
    return cudaSuccess;
}

static void count_asked(cudaEvent_t event) {
    std::lock_guard<std::mutex> lock(asked_lock);
    asked += event->asked_in != round_of_asking;
    event->asked_in = round_of_asking;
}

/* In the mode that threads begin with, asking would end what another thread records. */
cudaError_t cudaEventQuery(cudaEvent_t event) {
    queries++;
    count_asked(event);
    if (stalled)
        answer_late();
    if (capture_mode == cudaStreamCaptureModeGlobal)
        return cudaErrorStreamCaptureUnsupported;
    return broken[event->device] ? cudaErrorIllegalAddress : held ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *context) {
    host_functions++;
    run_on(stream->device, [=] { function(context); });
    return cudaSuccess;
}

static std::atomic<bool> capture_refused;
static std::atomic<int> graphs;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode) {
    assert(!stream->recorded);
    stream->recorded = new CUgraph_st;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    *graph = stream->recorded;
    stream->recorded = nullptr;
    if (!capture_refused)
        return cudaSuccess;
    delete *graph;
    *graph = nullptr;
    return cudaErrorStreamCaptureUnsupported;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long) {
    *made = new CUgraphExec_st{graph->work};
    graphs++;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    graph_launches++;
    for (auto &work : graph->work)
        run_on(stream->device, work);
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
    delete graph;
    graphs--;
    return cudaSuccess;
}

void mr_host_refuse_capture(bool refused) {
    capture_refused = refused;
}

int mr_host_graphs(void) {
    return graphs;
}

/* ---- profilers --------------------------------------------------------------------------------------------------- */

static thread_local int ranges;

int nvtxRangePushA(const char *) {
    return ranges++;
}

int nvtxRangePop(void) {
    return --ranges;
}
}
