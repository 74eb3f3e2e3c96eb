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
    const struct calls *calls;
    double spent;
    uint64_t draws;
    uint32_t chunks;
};

/* A number below `count` that a candidate cannot foresee: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). */
static uint32_t draw(struct run *run, uint32_t count)
{
    uint64_t mixed = run->draws += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((mixed ^ mixed >> 31) % count);
}

static bool watched(struct run *run, double *nanoseconds)
{
    if (!run->calls->watch(run->calls->user, nanoseconds))
        return false;
    run->spent += *nanoseconds;
    return true;
}

static bool timed(struct run *run, uint32_t repeat, uint32_t count, double *samples)
{
    if (count == 0)
        return true;
    if (!run->calls->take(run->calls->user, repeat, count, samples))
        return false;
    for (uint32_t i = 0; i < count; ++i)
        run->spent += repeat * samples[i];
    return true;
}

/* Take `count` samples, the n-th time with a watched pair among them with a chance of 1 in n. */
static bool chunk(struct run *run, uint32_t repeat, uint32_t count, double *samples)
{
    double dropped;
    const bool drawn = draw(run, ++run->chunks) == 0;
    if (repeat > 1) {
        const uint32_t before = drawn ? draw(run, count) : count;
        return timed(run, repeat, before, samples)
               && (!drawn || (watched(run, &dropped) && watched(run, &dropped)))
               && timed(run, repeat, count - before, samples + before);
    }
    const uint32_t first = drawn ? draw(run, count > 1 ? count - 1 : 1) : count;
    uint32_t have = first < count - 1 ? first : count - 1;
    if (!timed(run, 1, have, samples))
        return false;
    while (have < count) {
        const bool watch = have == first || have == first + 1 || have == count - 1;
        const uint32_t step = watch ? 1 : count - 1 - have;
        if (!(watch ? watched(run, samples + have) : timed(run, 1, step, samples + have)))
            return false;
        have += step;
    }
    return !drawn || count > 1 || watched(run, &dropped);
}

static bool warm_up(struct run *run, const struct policy *policy, bool single, uint32_t *repeat, double *estimate)
{
    *repeat = 1;
    if (!watched(run, estimate))
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

/* Take samples, of about `one` nanosecond each, until they are enough or the budget is spent. */
static bool until_trusted(struct run *run, double one, const struct policy *policy, double *samples,
                          struct sampling *sampling)
{
    const double first = run->spent;
    for (;;) {
        const uint32_t have = sampling->count, room = have < policy->max_samples ? policy->max_samples - have : 0;
        const double fits = fitting(run, policy, one);
        uint32_t wanted = policy->min_samples < room ? policy->min_samples : room;
        if (fits < wanted)
            wanted = (uint32_t)fits;
        if (wanted == 0) {
            if (have >= policy->few_samples) {
                sampling->stopped = have >= policy->max_samples ? STOP_COUNT : STOP_BUDGET;
                return true;
            }
            wanted = policy->few_samples - have;
        }
        if (!chunk(run, sampling->repeat, wanted, samples + have))
            return false;
        sampling->count += wanted;
        if (sampling->count >= policy->min_samples && run->spent - first >= policy->min_sampling
            && relative_width(samples, sampling->count) <= policy->narrow) {
            sampling->stopped = STOP_NARROW;
            return true;
        }
    }
}

bool sample(const struct calls *calls, const struct policy *policy, double best_ns, bool single, uint64_t seed,
            double *samples, struct sampling *sampling)
{
    struct run run = {calls, 0, seed, 0};
    double estimate, dropped;
    *sampling = (struct sampling){0, 1, STOP_NONE};
    if (!warm_up(&run, policy, single, &sampling->repeat, &estimate))
        return false;
    const double one = estimate * sampling->repeat > 1 ? estimate * sampling->repeat : 1;
    if (best_ns > 0 && estimate > policy->hopeless * best_ns) {
        const double fits = fitting(&run, policy, one);
        sampling->count = fits < 1 ? 1 : fits < policy->few_samples ? (uint32_t)fits : policy->few_samples;
        sampling->stopped = STOP_SLOW;
        if (!chunk(&run, sampling->repeat, sampling->count, samples))
            return false;
    } else if (!until_trusted(&run, one, policy, samples, sampling)) {
        return false;
    }
    return sampling->repeat == 1 || watched(&run, &dropped);
}
