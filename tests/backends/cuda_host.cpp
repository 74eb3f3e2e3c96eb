/* Runs the host code of a package in CUDA (called `small`, of one input x and one output y) on the CPU's stand-in for
 * CUDA's runtime: python -m pytest tests/backends/test_cuda_host.py. Prints "ok", or what is wrong. */
#include "cuda_runtime.h"
#include "small.h"

#include <map>
#include <string>

static std::map<std::string, long> calls;
static long number, failing = -1;

static cudaError_t counted(const char *call)
{
    calls[call]++;
    return number++ == failing ? cudaErrorIllegalAddress : cudaSuccess;
}

#define REQUIRE(what) \
    do { \
        if (!(what)) { \
            printf("line %d: not %s (fault at call %ld)\n", __LINE__, #what, failing); \
            exit(1); \
        } \
    } while (0)

static float x[2][SMALL_INPUT_X_ELEMENTS], wanted[2][SMALL_OUTPUT_Y_ELEMENTS], y[SMALL_OUTPUT_Y_ELEMENTS];
static void *device_x[2], *device_y[2];

static bool same(const float *got, int which) { return memcmp(got, wanted[which], sizeof y) == 0; }

static small_status run_on(small_ctx *ctx, int which, cudaStream_t stream = nullptr)
{
    const small_inputs in = {(const float *)device_x[which]};
    const small_outputs out = {(float *)device_y[which]};

    memset(device_y[which], 0, sizeof y);
    return small_run_on(ctx, stream, &in, &out);
}

static small_status run(small_ctx *ctx, int which)
{
    const small_inputs in = {x[which]};
    const small_outputs out = {y};

    return small_run(ctx, &in, &out);
}

static cudaError_t given;
static cudaError_t refusing(const char *) { return given; }

/* What people meet: each has a sentence that says what to do. */
static void each_error_has_a_sentence()
{
    static const struct {
        cudaError_t error;
        const char *part;
    } known[] = {
        {cudaErrorNoDevice, "no GPU"},
        {cudaErrorInsufficientDriver, "there is no driver, or it is older than the CUDA"},
        {cudaErrorNoKernelImageForDevice, "build it with CUDA_ARCH"},
        {cudaErrorUnsupportedPtxVersion, "build it with CUDA_ARCH"},
        {cudaErrorLaunchOutOfResources, "more shared memory or registers"},
        {cudaErrorMemoryAllocation, "too little free memory"},
    };
    small_ctx ctx;

    cuda_on_cpu::fault = refusing;
    for (const auto &one : known) {
        given = one.error;
        REQUIRE(small_init(&ctx, nullptr, 0) == SMALL_ERR_CUDA && small_cuda_error(&ctx) == one.error);
        REQUIRE(strstr(small_cuda_error_string(&ctx), one.part) != nullptr);
    }
    cuda_on_cpu::fault = counted;
}

/* All that a program does; the first status that is not OK. */
static small_status whole_life(small_ctx *ctx)
{
    small_status status = small_init(ctx, nullptr, 0);

    if (status != SMALL_OK)
        return status;
    for (int which : {0, 1, 1, 0}) {
        status = run_on(ctx, which);
        REQUIRE(status != SMALL_OK || same((const float *)device_y[which], which));
        if (status == SMALL_OK)
            status = run(ctx, which);
        REQUIRE(status != SMALL_OK || same(y, which));
        if (status != SMALL_OK)
            return status;
    }
    return status;
}

static void each_call_may_fail()
{
    small_ctx ctx;

    for (failing = 0;; failing++) {
        number = 0;
        const small_status status = whole_life(&ctx);
        if (status == SMALL_OK) {
            REQUIRE(number <= failing);
            small_deinit(&ctx);
            break;
        }
        REQUIRE(status == SMALL_ERR_CUDA);
        REQUIRE(small_cuda_error(&ctx) == cudaErrorIllegalAddress);
        REQUIRE(strlen(small_cuda_error_string(&ctx)) > 0);
        REQUIRE(cudaGetLastError() == cudaSuccess);
        const small_status again = run_on(&ctx, 0);
        REQUIRE(again == SMALL_ERR_NOT_READY || (again == SMALL_OK && same((const float *)device_y[0], 0)));
        small_deinit(&ctx);
        REQUIRE(cuda_on_cpu::live == 4);
    }
    REQUIRE(failing > 10);
    failing = -1;
}

static void nothing_is_made_after_init()
{
    small_ctx ctx;

    REQUIRE(small_init(&ctx, nullptr, 0) == SMALL_OK);
    const long made = cuda_on_cpu::made;
    calls.clear();
    for (int which : {0, 0, 0, 1, 1, 0})
        REQUIRE(run_on(&ctx, which) == SMALL_OK && same((const float *)device_y[which], which));
    REQUIRE(run(&ctx, 1) == SMALL_OK && same(y, 1));
    REQUIRE(cuda_on_cpu::made == made);
    if (SMALL_GRAPH) { /* four times other tensors, and two layers that touch them */
        REQUIRE(calls["cudaGraphLaunch"] == 7 && calls["cudaLaunchKernel"] == 0);
        REQUIRE(calls["cudaGraphExecKernelNodeSetParams"] == 8);
    } else {
        REQUIRE(calls["cudaGraphLaunch"] == 0 && calls["cudaLaunchKernel"] == 7 * LAUNCHES);
    }
    small_deinit(&ctx);
    REQUIRE(cuda_on_cpu::live == 4);
}

static void two_instances_on_two_streams()
{
    small_ctx first, second;
    char streams[2];

    REQUIRE(small_init(&first, nullptr, 0) == SMALL_OK && small_init(&second, nullptr, 0) == SMALL_OK);
    for (int i = 0; i < 3; i++) {
        REQUIRE(run_on(&first, 0, (cudaStream_t)&streams[0]) == SMALL_OK);
        REQUIRE(run_on(&second, 1, (cudaStream_t)&streams[1]) == SMALL_OK);
        REQUIRE(same((const float *)device_y[0], 0) && same((const float *)device_y[1], 1));
    }
    small_deinit(&first);
    REQUIRE(run_on(&second, 1) == SMALL_OK && same((const float *)device_y[1], 1));
    small_deinit(&second);
    REQUIRE(cuda_on_cpu::live == 4);
}

static void the_callers_memory_is_used_and_kept()
{
    static unsigned char host[SMALL_WORKSPACE_BYTES] __attribute__((aligned(SMALL_WORKSPACE_ALIGN)));
    small_ctx ctx;
    void *memory;

    REQUIRE(cudaMalloc(&memory, SMALL_WORKSPACE_BYTES) == cudaSuccess);
    calls.clear();
    REQUIRE(small_init(&ctx, host, sizeof host) == SMALL_ERR_WORKSPACE_MEMORY);
    REQUIRE(small_init(&ctx, memory, SMALL_WORKSPACE_BYTES - 1) == SMALL_ERR_WORKSPACE_SIZE);
    REQUIRE(run(&ctx, 0) == SMALL_ERR_NOT_READY);
    REQUIRE(small_init(&ctx, memory, SMALL_WORKSPACE_BYTES) == SMALL_OK);
    REQUIRE(run(&ctx, 0) == SMALL_OK && same(y, 0));
    small_deinit(&ctx);
    REQUIRE(calls["cudaMalloc"] == 0 && cudaFree(memory) == cudaSuccess);
    REQUIRE(cuda_on_cpu::live == 4);
}

/* Where a kernel of the package was altered to ask for so much shared memory. */
static int ask_for_shared_memory(size_t bytes)
{
    small_ctx ctx;

    cuda_on_cpu::fault = counted;
    const small_status status = small_init(&ctx, nullptr, 0);
    const bool refused = bytes > cuda_on_cpu::shared_bytes_of_device; /* what is refused is not counted */
    REQUIRE(calls["cudaFuncSetAttribute"] == (bytes > 48 << 10 && !refused));
    if (refused) {
        REQUIRE(status == SMALL_ERR_CUDA);
        REQUIRE(strstr(small_cuda_error_string(&ctx), "more shared memory") != nullptr);
    } else {
        REQUIRE(status == SMALL_OK);
        small_deinit(&ctx);
    }
    REQUIRE(cuda_on_cpu::live == 0);
    printf("ok\n");
    return 0;
}

int main(int count, char **names)
{
    if (count > 2)
        return ask_for_shared_memory(strtoul(names[2], nullptr, 10));
    FILE *data = fopen(names[1], "rb");

    for (int which = 0; which < 2; which++) {
        REQUIRE(fread(x[which], sizeof x[which], 1, data) == 1);
        REQUIRE(cudaMalloc(&device_x[which], sizeof x[which]) == cudaSuccess);
        REQUIRE(cudaMalloc(&device_y[which], sizeof y) == cudaSuccess);
        memcpy(device_x[which], x[which], sizeof x[which]);
        small_ctx ctx;
        REQUIRE(small_init(&ctx, nullptr, 0) == SMALL_OK && run(&ctx, which) == SMALL_OK);
        memcpy(wanted[which], y, sizeof y);
        fwrite(y, sizeof y, 1, stdout);
        small_deinit(&ctx);
    }
    fclose(data);
    cuda_on_cpu::fault = counted;
    each_error_has_a_sentence();
    each_call_may_fail();
    nothing_is_made_after_init();
    two_instances_on_two_streams();
    the_callers_memory_is_used_and_kept();
    printf("ok\n");
    return 0;
}
