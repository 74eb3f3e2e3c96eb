/* SPDX-License-Identifier: Apache-2.0 */
#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bytes.h"

#define MOST_CONTENTS 4096u
#define MEMFD_CLOEXEC 1u
#define MEMFD_EXEC 16u /* newer kernels want to be told; older ones refuse to be */

static struct content contents[MOST_CONTENTS];
static size_t content_count;
static struct content arriving; /* the push under way */
static size_t arrived;
static bool is_arriving;
static uint64_t bytes_used, bytes_most, array_changes;
static const char *own_folder;

static int memory_file(void)
{
#if defined SYS_memfd_create && !defined EDGETUNE_NO_MEMFD
    long file = syscall(SYS_memfd_create, "edgetune", MEMFD_CLOEXEC | MEMFD_EXEC);
    if (file < 0)
        file = syscall(SYS_memfd_create, "edgetune", MEMFD_CLOEXEC);
    return (int)file;
#else
    return -1;
#endif
}

/* A file that has lost its name before anything is in it: it goes when its last user goes, however that ends. */
static int nameless_file(void)
{
    const int file = memory_file();
    if (file >= 0)
        return file;
    char path[4096];
    const int length = snprintf(path, sizeof path, "%s/.edgetune-%ld", own_folder, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof path)
        return -1;
    const int named = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0700);
    if (named >= 0)
        unlink(path);
    return named;
}

void store_init(const char *folder, uint64_t most_bytes)
{
    own_folder = folder;
    bytes_most = most_bytes;
}

bool store_has_memfd(void)
{
    const int file = memory_file();
    if (file >= 0)
        close(file);
    return file >= 0;
}

static struct content *find(const uint8_t id[ID_BYTES])
{
    for (size_t i = 0; i < content_count; ++i)
        if (memcmp(contents[i].id, id, ID_BYTES) == 0)
            return &contents[i];
    return NULL;
}

const struct content *store_find(const uint8_t id[ID_BYTES], uint8_t kind)
{
    const struct content *content = find(id);
    return content != NULL && content->kind == kind ? content : NULL;
}

static void dispose(const struct content *content)
{
    if (content->bytes != NULL)
        munmap(content->bytes, content->size > 0 ? content->size : 1);
    if (content->file >= 0)
        close(content->file);
    bytes_used -= content->size;
}

void store_forget(const uint8_t id[ID_BYTES])
{
    struct content *content = find(id);
    if (content == NULL)
        return;
    array_changes += content->kind == CONTENT_ARRAY;
    dispose(content);
    *content = contents[--content_count];
}

static void drop_arriving(void)
{
    if (is_arriving)
        dispose(&arriving);
    is_arriving = false;
}

static const char *begin(const uint8_t *id, uint8_t kind, uint64_t total)
{
    if (kind > CONTENT_LIBRARY || total > SIZE_MAX / 4)
        return "a push makes no sense";
    if (content_count == MOST_CONTENTS || total > bytes_most - bytes_used)
        return "no memory left for what is pushed";
    arriving = (struct content){.kind = kind, .size = (size_t)total, .bytes = NULL, .file = -1};
    memcpy(arriving.id, id, ID_BYTES);
    if (kind == CONTENT_LIBRARY) {
        arriving.file = nameless_file();
        if (arriving.file < 0)
            return "no place for a library: neither memory nor the folder of the agent takes files";
    } else {
        void *map = mmap(NULL, total > 0 ? (size_t)total : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                         0);
        if (map == MAP_FAILED)
            return "no memory left for what is pushed";
        arriving.bytes = map;
    }
    bytes_used += total;
    arrived = 0;
    is_arriving = true;
    return NULL;
}

static const char *add(const uint8_t *data, size_t count)
{
    if (arriving.kind == CONTENT_ARRAY) {
        if (count > 0)
            memcpy((uint8_t *)arriving.bytes + arrived, data, count);
        arrived += count;
        return NULL;
    }
    while (count > 0) {
        const ssize_t written = write(arriving.file, data, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return errno == ENOSPC ? "no space left for a library" : "a library cannot be written";
        data += written;
        count -= (size_t)written;
        arrived += (size_t)written;
    }
    return NULL;
}

const char *store_piece(const uint8_t *payload, uint32_t length, bool *complete)
{
    struct reader in = {payload, length, false};
    const uint8_t *id = get_bytes(&in, ID_BYTES);
    const uint8_t kind = get_u8(&in);
    const uint64_t total = get_u64(&in), offset = get_u64(&in);
    *complete = false;
    if (in.bad || id == NULL || total > SIZE_MAX / 4 || offset > total || in.left > total - offset)
        return "a push makes no sense";
    if (find(id) != NULL) { /* known: what comes again is passed over */
        *complete = offset + in.left == total;
        return NULL;
    }
    const char *problem = NULL;
    if (offset == 0) {
        drop_arriving();
        problem = begin(id, kind, total);
    } else if (!is_arriving || memcmp(arriving.id, id, ID_BYTES) != 0 || offset != arrived || total != arriving.size) {
        problem = "a push goes on that was not begun";
    }
    if (problem == NULL)
        problem = add(in.at, in.left);
    if (problem != NULL) {
        drop_arriving();
        return problem;
    }
    if (arrived == arriving.size) {
        if (arriving.kind == CONTENT_ARRAY)
            mprotect(arriving.bytes, arriving.size > 0 ? arriving.size : 1, PROT_READ);
        array_changes += arriving.kind == CONTENT_ARRAY;
        contents[content_count++] = arriving;
        is_arriving = false;
        *complete = true;
    }
    return NULL;
}

uint64_t store_array_changes(void)
{
    return array_changes;
}

void store_close_files(void)
{
    for (size_t i = 0; i < content_count; ++i)
        if (contents[i].file >= 0)
            close(contents[i].file);
    if (is_arriving && arriving.file >= 0)
        close(arriving.file);
}
