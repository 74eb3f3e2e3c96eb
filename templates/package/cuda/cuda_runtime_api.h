/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of CUDA's runtime that a package calls, on the CPU: names and meaning are CUDA's. Part of cuda_runtime.h.
 *
 * Launches and copies are done when they are asked for. Nodes of a graph that are ready run in the reverse order of
 * their making, so that a dependence that is missing shows. A kernel is known once it has been loaded or launched by its
 * own type.
 */
#ifndef CUDA_ON_CPU_RUNTIME_API_H
#define CUDA_ON_CPU_RUNTIME_API_H

#include <time.h>

#include <map>
#include <tuple>
#include <type_traits>
#include <utility>

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInsufficientDriver = 35,
    cudaErrorInvalidDeviceFunction = 98,
    cudaErrorNoDevice = 100,
    cudaErrorNoKernelImageForDevice = 209,
    cudaErrorUnsupportedPtxVersion = 222,
    cudaErrorIllegalAddress = 700,
    cudaErrorLaunchOutOfResources = 701
};
enum cudaMemoryType {
    cudaMemoryTypeUnregistered = 0, cudaMemoryTypeHost = 1, cudaMemoryTypeDevice = 2, cudaMemoryTypeManaged = 3
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum cudaDeviceAttr {
    cudaDevAttrClockRate = 13,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrMemoryClockRate = 36,
    cudaDevAttrGlobalMemoryBusWidth = 37,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76
};
struct cudaPointerAttributes {
    cudaMemoryType type;
};
struct cudaFuncAttributes {
    size_t sharedSizeBytes;
};
struct cudaKernelNodeParams {
    void *func;
    dim3 gridDim, blockDim;
    unsigned sharedMemBytes;
    void **kernelParams, **extra;
};
struct CUstream_st;
typedef CUstream_st *cudaStream_t;
typedef struct CUgraphNode_st *cudaGraphNode_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
typedef struct CUevent_st *cudaEvent_t;

namespace cuda_on_cpu {

using Work = std::function<void()>;

/* What a test may set: each call of the API asks it by name, and returns the error that it gives. */
inline cudaError_t (*fault)(const char *call) = nullptr;
inline cudaError_t last_error = cudaSuccess;
inline long made, live; /* allocations, graphs, nodes, replays, events: all ever made, and those not freed yet */
inline size_t shared_bytes_of_device = 96 << 10;

/* By kernel: what copies its arguments, and gives the work of one thread; and the dynamic shared memory it may have. */
struct Kernel {
    Work (*bound)(const void *kernel, void **arguments);
    size_t dynamic_bytes = 48 << 10;
};
inline std::map<const void *, Kernel> kernels;

inline cudaError_t told(const char *call, cudaError_t error)
{
    if (error == cudaSuccess && fault != nullptr)
        error = fault(call);
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

template <typename... Arguments, size_t... Index>
Work bind_as(void (*kernel)(Arguments...), void **arguments, std::index_sequence<Index...>)
{
    auto values = std::make_tuple(*static_cast<std::remove_const_t<Arguments> *>(arguments[Index])...);
    return [kernel, values] { std::apply(kernel, values); };
}

template <typename... Arguments>
void know(void (*kernel)(Arguments...))
{
    kernels[(const void *)kernel].bound = [](const void *at, void **arguments) {
        return bind_as((void (*)(Arguments...))at, arguments, std::index_sequence_for<Arguments...>());
    };
}

inline bool on_device(const void *pointer)
{
    const uintptr_t at = (uintptr_t)pointer;

    for (const Allocation *one = allocations; one != nullptr; one = one->next)
        if (at >= one->first && at < one->end)
            return true;
    return false;
}

/* What a launch or a node does; its arguments are copied now. */
inline cudaError_t work_of(const cudaKernelNodeParams &node, Work &work)
{
    const auto found = kernels.find(node.func);

    if (found == kernels.end())
        return cudaErrorInvalidDeviceFunction;
    if (node.sharedMemBytes > found->second.dynamic_bytes)
        return cudaErrorInvalidValue;
    work = [thread = found->second.bound(node.func, node.kernelParams), node] {
        dynamic_bytes = node.sharedMemBytes;
        launch(node.gridDim, node.blockDim, thread);
    };
    return cudaSuccess;
}

} /* namespace cuda_on_cpu */

struct CUgraphNode_st {
    cuda_on_cpu::Work work;
    std::vector<cudaGraphNode_t> after;
};
struct CUgraph_st {
    std::vector<cudaGraphNode_t> nodes;
};
struct CUgraphExec_st {
    std::vector<cudaGraphNode_t> nodes; /* those of the graph */
    std::map<cudaGraphNode_t, cuda_on_cpu::Work> work;
};
struct CUevent_st {
    timespec at;
};

inline cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    using namespace cuda_on_cpu;
    const cudaError_t error = told("cudaMalloc", cudaSuccess);

    if (error != cudaSuccess)
        return error;
    unsigned char *whole = static_cast<unsigned char *>(aligned_alloc(256, (bytes + 255) / 256 * 256 + 2 * GUARD));
    Shadow *words = static_cast<Shadow *>(calloc(bytes / WORD + 1, sizeof(Shadow)));
    if (whole == nullptr || words == nullptr)
        return told("cudaMalloc", cudaErrorMemoryAllocation);
    *memory = whole + GUARD;
    const uintptr_t first = (uintptr_t)*memory;
    allocations = new Allocation{first, first + bytes, words, allocations};
    memset(*memory, POISON, bytes);
    made++;
    live++;
    return cudaSuccess;
}

inline cudaError_t cudaFree(void *memory)
{
    using namespace cuda_on_cpu;
    const uintptr_t first = (uintptr_t)memory;

    for (Allocation **at = &allocations; *at != nullptr; at = &(*at)->next)
        if ((*at)->first == first) {
            Allocation *gone = *at;
            *at = gone->next;
            free(static_cast<unsigned char *>(memory) - GUARD);
            free(gone->words);
            delete gone;
            live--;
            return told("cudaFree", cudaSuccess);
        }
    return told("cudaFree", memory == nullptr ? cudaSuccess : cudaErrorInvalidValue);
}

inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *found, const void *pointer)
{
    found->type = cuda_on_cpu::on_device(pointer) ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
    return cuda_on_cpu::told("cudaPointerGetAttributes", cudaSuccess);
}

inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t)
{
    using namespace cuda_on_cpu;
    const bool upwards = kind == cudaMemcpyHostToDevice, right = on_device(to) == upwards && on_device(from) != upwards;
    const cudaError_t error = told("cudaMemcpyAsync", right || bytes == 0 ? cudaSuccess : cudaErrorInvalidValue);

    if (error == cudaSuccess)
        memcpy(to, from, bytes);
    return error;
}

inline cudaError_t cudaMemset(void *to, int value, size_t bytes)
{
    const cudaError_t error = cuda_on_cpu::told("cudaMemset", cudaSuccess);

    if (error == cudaSuccess)
        memset(to, value, bytes);
    return error;
}

inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cuda_on_cpu::told("cudaStreamSynchronize", cudaSuccess); }

inline cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cuda_on_cpu::told("cudaGetDevice", cudaSuccess);
}

/* Those of a small part of compute capability 7.5. */
inline cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr which, int)
{
    switch (which) {
    case cudaDevAttrClockRate:
        *value = 1000000;
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = 14;
        break;
    case cudaDevAttrMemoryClockRate:
        *value = 4000000;
        break;
    case cudaDevAttrGlobalMemoryBusWidth:
        *value = 128;
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = 7;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = 5;
        break;
    }
    return cuda_on_cpu::told("cudaDeviceGetAttribute", cudaSuccess);
}

inline cudaError_t cudaGetLastError()
{
    return std::exchange(cuda_on_cpu::last_error, cudaSuccess);
}

inline const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess ? "no error" : error == cudaErrorInvalidValue ? "invalid argument" : "an error of CUDA";
}

template <typename... Arguments>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *found, void (*kernel)(Arguments...))
{
    const cudaError_t error = cuda_on_cpu::told("cudaFuncGetAttributes", cudaSuccess);

    found->sharedSizeBytes = 0;
    if (error == cudaSuccess)
        cuda_on_cpu::know(kernel);
    return error;
}

template <typename... Arguments>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Arguments...), cudaFuncAttribute, int bytes)
{
    using namespace cuda_on_cpu;
    const bool there = (size_t)bytes <= shared_bytes_of_device;
    const cudaError_t error = told("cudaFuncSetAttribute", there ? cudaSuccess : cudaErrorInvalidValue);

    if (error == cudaSuccess)
        kernels[(const void *)kernel].dynamic_bytes = (size_t)bytes;
    return error;
}

inline cudaError_t cudaLaunchKernel(
    const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes, cudaStream_t)
{
    cuda_on_cpu::Work work;
    const cudaKernelNodeParams node = {const_cast<void *>(kernel), grid, block, (unsigned)shared_bytes, arguments, nullptr};
    const cudaError_t error = cuda_on_cpu::told("cudaLaunchKernel", cuda_on_cpu::work_of(node, work));

    if (error == cudaSuccess)
        work();
    return error;
}

template <typename... Arguments>
cudaError_t cudaLaunchKernel(
    void (*kernel)(Arguments...), dim3 grid, dim3 block, void **arguments, size_t shared_bytes, cudaStream_t stream)
{
    cuda_on_cpu::know(kernel);
    return cudaLaunchKernel((const void *)kernel, grid, block, arguments, shared_bytes, stream);
}

inline cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned)
{
    const cudaError_t error = cuda_on_cpu::told("cudaGraphCreate", cudaSuccess);

    if (error == cudaSuccess) {
        *graph = new CUgraph_st;
        cuda_on_cpu::made++;
        cuda_on_cpu::live++;
    }
    return error;
}

inline cudaError_t cudaGraphAddKernelNode(
    cudaGraphNode_t *made, cudaGraph_t graph, const cudaGraphNode_t *after, size_t count, const cudaKernelNodeParams *node)
{
    cuda_on_cpu::Work work;
    const cudaError_t error = cuda_on_cpu::told("cudaGraphAddKernelNode", cuda_on_cpu::work_of(*node, work));

    if (error == cudaSuccess) {
        *made = new CUgraphNode_st{work, {after, after + count}};
        graph->nodes.push_back(*made);
        cuda_on_cpu::made++;
    }
    return error;
}

inline cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    for (cudaGraphNode_t node : graph->nodes)
        delete node;
    delete graph;
    cuda_on_cpu::live--;
    return cuda_on_cpu::told("cudaGraphDestroy", cudaSuccess);
}

inline cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *replay, cudaGraph_t graph, unsigned long long)
{
    const cudaError_t error = cuda_on_cpu::told("cudaGraphInstantiateWithFlags", cudaSuccess);

    if (error == cudaSuccess) {
        *replay = new CUgraphExec_st{graph->nodes, {}};
        for (cudaGraphNode_t node : graph->nodes)
            (*replay)->work[node] = node->work;
        cuda_on_cpu::made++;
        cuda_on_cpu::live++;
    }
    return error;
}

inline cudaError_t cudaGraphExecKernelNodeSetParams(
    cudaGraphExec_t replay, cudaGraphNode_t node, const cudaKernelNodeParams *renewed)
{
    cuda_on_cpu::Work work;
    const auto found = replay->work.find(node);
    cudaError_t error = found == replay->work.end() ? cudaErrorInvalidValue : cuda_on_cpu::work_of(*renewed, work);

    error = cuda_on_cpu::told("cudaGraphExecKernelNodeSetParams", error);
    if (error == cudaSuccess)
        found->second = work;
    return error;
}

inline cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t)
{
    return cuda_on_cpu::told("cudaGraphUpload", cudaSuccess);
}

inline cudaError_t cudaGraphLaunch(cudaGraphExec_t replay, cudaStream_t)
{
    const cudaError_t error = cuda_on_cpu::told("cudaGraphLaunch", cudaSuccess);
    std::map<cudaGraphNode_t, bool> done;

    for (size_t left = error == cudaSuccess ? replay->nodes.size() : 0; left > 0; left--)
        for (size_t i = replay->nodes.size(); i-- > 0;) {
            cudaGraphNode_t node = replay->nodes[i];
            bool ready = !done[node];
            for (cudaGraphNode_t before : node->after)
                ready = ready && done[before];
            if (ready) {
                replay->work[node]();
                done[node] = true;
                break;
            }
        }
    return error;
}

inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t replay)
{
    delete replay;
    cuda_on_cpu::live--;
    return cuda_on_cpu::told("cudaGraphExecDestroy", cudaSuccess);
}

inline cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    const cudaError_t error = cuda_on_cpu::told("cudaEventCreate", cudaSuccess);

    if (error == cudaSuccess) {
        *event = new CUevent_st{};
        cuda_on_cpu::made++;
        cuda_on_cpu::live++;
    }
    return error;
}

inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t)
{
    clock_gettime(CLOCK_MONOTONIC, &event->at);
    return cuda_on_cpu::told("cudaEventRecord", cudaSuccess);
}

inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cuda_on_cpu::told("cudaEventSynchronize", cudaSuccess); }

inline cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    *ms = (float)((double)(end->at.tv_sec - start->at.tv_sec) * 1e3 + (double)(end->at.tv_nsec - start->at.tv_nsec) * 1e-6);
    return cuda_on_cpu::told("cudaEventElapsedTime", cudaSuccess);
}

inline cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    cuda_on_cpu::live--;
    return cuda_on_cpu::told("cudaEventDestroy", cudaSuccess);
}

#endif
