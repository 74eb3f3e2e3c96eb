/* SPDX-License-Identifier: Apache-2.0 */
#include "sampling.h"

#include <stdlib.h>
#include <string.h>

#define LEAST_NS 0.1
#define CONFIDENCE 0.95
#define OUTLIER_DEVIATIONS 5.0
#define LEAST_SPREAD 1e-3

static int ascending(const void *left, const void *right)
{
    double a, b;
    memcpy(&a, left, sizeof a);
    memcpy(&b, right, sizeof b);
    return (a > b) - (a < b);
}

static double median(const double *ordered, uint32_t count)
{
    return count % 2 == 1 ? ordered[count / 2] : (ordered[count / 2 - 1] + ordered[count / 2]) / 2;
}

/* Largest rank r, from 1, such that P(r <= Bin(count, 1/2) < count + 1 - r) is at least the confidence, or 1. */
static uint32_t lower_rank(uint32_t count)
{
    double chance = 1; /* of exactly `rank - 1`, as a power of two is taken out */
    int exponent = -(int)count;
    double outside = 0;
    uint32_t rank = 1;
    const double scale_down = 0x1p-512;
    outside = chance;
    while (2 * (rank + 1) <= count + 1) {
        chance = chance * (double)(count - rank + 1) / (double)rank;
        if (chance > 0x1p512) {
            chance *= scale_down;
            outside *= scale_down;
            exponent += 512;
        }
        const double following = outside + chance;
        if (__builtin_ldexp(following, exponent) > (1.0 - CONFIDENCE) / 2)
            break;
        outside = following;
        ++rank;
    }
    return rank;
}

double relative_width(const double *samples, uint32_t count)
{
    static double ordered[2 * MOST_SAMPLES], deviations[2 * MOST_SAMPLES];
    memcpy(ordered, samples, count * sizeof *samples);
    qsort(ordered, count, sizeof *ordered, ascending);
    const double middle = median(ordered, count);
    for (uint32_t i = 0; i < count; ++i)
        deviations[i] = ordered[i] > middle ? ordered[i] - middle : middle - ordered[i];
    qsort(deviations, count, sizeof *deviations, ascending);
    const double deviation = median(deviations, count), least = LEAST_SPREAD * (middle < 0 ? -middle : middle);
    const double limit = middle + OUTLIER_DEVIATIONS * (deviation > least ? deviation : least);
    uint32_t kept = 0;
    while (kept < count && ordered[kept] <= limit)
        ++kept;
    const uint32_t rank = lower_rank(kept);
    const double centre = median(ordered, kept);
    return centre > 0 ? (ordered[kept - rank] - ordered[rank - 1]) / centre : 0;
}

static double ceiling(double value) /* of what is neither negative nor huge */
{
    const double whole = (double)(int64_t)value;
    return whole < value ? whole + 1 : whole;
}

struct run {
    take_fn take;
    void *user;
    double spent;
};

static bool timed(struct run *run, uint32_t repeat, uint32_t count, double *samples)
{
    if (!run->take(run->user, repeat, count, samples))
        return false;
    for (uint32_t i = 0; i < count; ++i)
        run->spent += repeat * samples[i];
    return true;
}

static bool warm_up(struct run *run, const struct policy *policy, bool single, uint32_t *repeat, double *estimate)
{
    *repeat = 1;
    if (!timed(run, 1, 1, estimate))
        return false;
    while (!single
           && (*estimate * *repeat < policy->sample
               || (run->spent < policy->warm_up && *estimate * *repeat < policy->warm_up))) {
        if (*estimate * *repeat < policy->sample) {
            const double wanted = ceiling(1.1 * policy->sample / (*estimate > LEAST_NS ? *estimate : LEAST_NS));
            const double most = *repeat * 32.0, least = ceiling(1.5 * *repeat);
            const double next = wanted < most ? wanted : most;
            *repeat = (uint32_t)(next > least ? next : least);
            if (*repeat > 1u << 30)
                return false; /* no clock ticks */
        }
        if (!timed(run, *repeat, 1, estimate))
            return false;
    }
    return true;
}

static double fitting(const struct run *run, const struct policy *policy, double one)
{
    const double left = policy->budget - run->spent;
    return left > 0 ? left / one : 0;
}

bool sample(take_fn take, void *user, const struct policy *policy, double best_ns, bool single, double *samples,
            struct sampling *sampling)
{
    struct run run = {take, user, 0};
    double estimate;
    *sampling = (struct sampling){0, 1, STOP_NONE};
    if (!warm_up(&run, policy, single, &sampling->repeat, &estimate))
        return false;
    const double one = estimate * sampling->repeat > 1 ? estimate * sampling->repeat : 1;
    if (best_ns > 0 && estimate > policy->hopeless * best_ns) {
        const double fits = fitting(&run, policy, one);
        const uint32_t few = fits < 1 ? 1 : fits < policy->few_samples ? (uint32_t)fits : policy->few_samples;
        sampling->count = few;
        sampling->stopped = STOP_SLOW;
        return timed(&run, sampling->repeat, few, samples);
    }
    const double first = run.spent;
    for (;;) {
        const uint32_t have = sampling->count, room = have < policy->max_samples ? policy->max_samples - have : 0;
        const double fits = fitting(&run, policy, one);
        uint32_t chunk = policy->min_samples < room ? policy->min_samples : room;
        if (fits < chunk)
            chunk = (uint32_t)fits;
        if (chunk == 0) {
            if (have >= policy->few_samples) {
                sampling->stopped = have >= policy->max_samples ? STOP_COUNT : STOP_BUDGET;
                return true;
            }
            chunk = policy->few_samples - have;
        }
        if (!timed(&run, sampling->repeat, chunk, samples + have))
            return false;
        sampling->count += chunk;
        if (sampling->count >= policy->min_samples && run.spent - first >= policy->min_sampling
            && relative_width(samples, sampling->count) <= policy->narrow) {
            sampling->stopped = STOP_NARROW;
            return true;
        }
    }
}
