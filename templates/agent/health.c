/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "health.h"

#include <dirent.h>
#include <stdio.h>

#include "system.h"

enum key {
    KEY_GOVERNOR = 1,
    KEY_CLOCK_KHZ,
    KEY_CLOCK_MAX_KHZ,
    KEY_THROTTLE_COUNT,
    KEY_TEMPERATURE_C,
    KEY_LOAD_1MIN,
    KEY_PAGE_FAULTS,
    KEY_THROTTLE_FLAGS,
    KEY_CLOCK_MIN_KHZ
};
enum kind { KIND_TEXT = 0, KIND_WHOLE, KIND_FRACTION };

#define MOST_ZONES 64

static void begin(struct writer *out, enum key key, enum kind kind)
{
    ++out->base[0];
    put_number(out, (uint64_t)key, 1);
    put_number(out, (uint64_t)kind, 1);
}

static void whole(struct writer *out, enum key key, uint64_t value)
{
    begin(out, key, KIND_WHOLE);
    put_number(out, value, 8);
}

static void fraction(struct writer *out, enum key key, double value)
{
    begin(out, key, KIND_FRACTION);
    put_f64(out, value);
}

static bool number_at(const char *path, unsigned base, uint64_t *value)
{
    char text[64];
    return read_text(path, text, sizeof text) && read_number(text, base, value);
}

/* "cpu MHz" of a core in /proc/cpuinfo, where there is no cpufreq. */
static bool cpuinfo_khz(unsigned core, uint64_t *khz)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[4096];
    uint64_t number = 0;
    bool right = false, found = false;
    while (file != NULL && !found && fgets(line, sizeof line, file) != NULL) {
        const char *value = strchr(line, ':');
        if (value == NULL)
            continue;
        value += value[1] == ' ' ? 2 : 1;
        double mhz;
        if (strncmp(line, "processor", 9) == 0)
            right = read_number(value, 10, &number) && number == core;
        else if (right && strncmp(line, "cpu MHz", 7) == 0 && read_fraction(value, &mhz)) {
            *khz = (uint64_t)(mhz * 1000);
            found = true;
        }
    }
    if (file != NULL)
        fclose(file);
    return found;
}

/* The highest of all `<folder>/<start>N/<file>` in thousandths of a degree. */
static void hottest(const char *folder, const char *start, const char *prefix, const char *suffix, double *most,
                    bool *any)
{
    DIR *list = opendir(folder);
    if (list == NULL)
        return;
    for (struct dirent *zone; (zone = readdir(list)) != NULL;) {
        char path[600], inner[300];
        if (strncmp(zone->d_name, start, strlen(start)) != 0)
            continue;
        snprintf(inner, sizeof inner, "%s/%s", folder, zone->d_name);
        DIR *files = opendir(inner);
        if (files == NULL)
            continue;
        for (struct dirent *file; (file = readdir(files)) != NULL;) {
            const size_t length = strlen(file->d_name), ending = strlen(suffix);
            char text[64];
            uint64_t value;
            if (strncmp(file->d_name, prefix, strlen(prefix)) != 0 || length < ending
                || strcmp(file->d_name + length - ending, suffix) != 0)
                continue;
            snprintf(path, sizeof path, "%s/%s", inner, file->d_name);
            if (!read_text(path, text, sizeof text))
                continue;
            const bool negative = text[0] == '-';
            if (!read_number(text + negative, 10, &value))
                continue;
            const double degrees = (negative ? -1e-3 : 1e-3) * (double)value;
            *most = !*any || degrees > *most ? degrees : *most;
            *any = true;
        }
        closedir(files);
    }
    closedir(list);
}

void health_write(struct writer *out, unsigned core, uint64_t page_faults)
{
    char path[160], text[200];
    uint64_t value;
    put_number(out, 0, 1);
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/cpufreq/scaling_governor", core);
    if (read_text(path, text, sizeof text)) {
        begin(out, KEY_GOVERNOR, KIND_TEXT);
        put_text(out, text);
    }
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/cpufreq/scaling_cur_freq", core);
    if (number_at(path, 10, &value) || cpuinfo_khz(core, &value))
        whole(out, KEY_CLOCK_KHZ, value);
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/cpufreq/scaling_min_freq", core);
    if (number_at(path, 10, &value))
        whole(out, KEY_CLOCK_MIN_KHZ, value);
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/cpufreq/scaling_max_freq", core);
    if (number_at(path, 10, &value))
        whole(out, KEY_CLOCK_MAX_KHZ, value);
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/thermal_throttle/core_throttle_count", core);
    if (number_at(path, 10, &value))
        whole(out, KEY_THROTTLE_COUNT, value);
    if (number_at("/sys/devices/platform/soc/soc:firmware/get_throttled", 16, &value)) /* Raspberry Pi */
        whole(out, KEY_THROTTLE_FLAGS, value);
    double degrees = 0, load;
    bool any = false;
    hottest("/sys/class/thermal", "thermal_zone", "temp", "temp", &degrees, &any);
    hottest("/sys/class/hwmon", "hwmon", "temp", "_input", &degrees, &any);
    if (any)
        fraction(out, KEY_TEMPERATURE_C, degrees);
    if (read_text("/proc/loadavg", text, sizeof text) && read_fraction(text, &load))
        fraction(out, KEY_LOAD_1MIN, load);
    whole(out, KEY_PAGE_FAULTS, page_faults);
}
