/* SPDX-License-Identifier: Apache-2.0 */
#include "request.h"

#include <string.h>

#include "bytes.h"

/* False for NaN as well. */
static bool within(double value, double low, double high)
{
    return value >= low && value <= high;
}

static void get_id(struct reader *in, uint8_t id[ID_BYTES])
{
    const uint8_t *at = get_bytes(in, ID_BYTES);
    if (at != NULL)
        memcpy(id, at, ID_BYTES);
}

static bool sensible(const struct policy *policy)
{
    return within(policy->budget, 0, 1e13) && within(policy->sample, 0, 1e13) && within(policy->warm_up, 0, 1e13)
           && within(policy->min_sampling, 0, 1e13) && within(policy->narrow, 0, 1e3)
           && within(policy->hopeless, 0, 1e9) && policy->min_samples >= 1 && policy->few_samples >= 1
           && policy->min_samples <= policy->max_samples && policy->few_samples <= policy->max_samples
           && policy->max_samples <= MOST_SAMPLES;
}

const char *request_parse(struct request *request, const struct frame *frame)
{
    struct reader in = {frame->payload, frame->length, false};
    memset(request, 0, sizeof *request);
    request->number = get_u32(&in);
    get_id(&in, request->library);
    request->scratch_bytes = get_u64(&in);
    request->memory_bytes = get_u64(&in);
    request->cold_bytes = get_u64(&in);
    request->deadline_s = get_f64(&in);
    request->best_ns = get_f64(&in);
    request->seed = get_u64(&in);
    struct policy *policy = &request->policy;
    double *const limits[] = {&policy->budget,       &policy->sample, &policy->warm_up,
                              &policy->min_sampling, &policy->narrow, &policy->hopeless};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; ++i)
        *limits[i] = get_f64(&in);
    policy->min_samples = get_u32(&in);
    policy->max_samples = get_u32(&in);
    policy->few_samples = get_u32(&in);
    request->core_count = get_u16(&in);
    if (in.bad || request->core_count > MOST_CORES)
        return "a request names too many cores";
    for (unsigned i = 0; i < request->core_count; ++i)
        request->cores[i] = get_u16(&in);
    request->array_count = get_u16(&in);
    if (in.bad || request->array_count > MOST_ARRAYS)
        return "a request names too many arrays";
    for (unsigned i = 0; i < request->array_count; ++i) {
        struct array_use *use = &request->arrays[i];
        get_id(&in, use->id);
        use->role = get_u8(&in);
        use->type = get_u8(&in);
        use->tolerance.relative = get_f64(&in);
        use->tolerance.absolute = get_f64(&in);
        use->tolerance.share = get_f64(&in);
        if (use->role > ROLE_PART || use->type > F64 || !within(use->tolerance.relative, 0, 1e300)
            || !within(use->tolerance.absolute, 0, 1e300) || !within(use->tolerance.share, 0, 1))
            return "an array of a request makes no sense";
    }
    if (in.bad || in.left != 0)
        return "a request is too short or too long";
    if (!sensible(policy) || !within(request->deadline_s, 0, 86400) || !within(request->best_ns, 0, 1e15))
        return "the limits of a request make no sense";
    const uint64_t most = (uint64_t)(SIZE_MAX / 4);
    if (request->scratch_bytes > most || request->cold_bytes > most)
        return "a request needs more memory than there is";
    return NULL;
}
