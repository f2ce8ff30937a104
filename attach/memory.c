#include "attach/memory.h"
#include "base/search.h"
#include "host/headroom.h"
#include "host/task.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#define PAGE_EMPTY 1u

void memory_heed_swap(struct memory *memory, const struct target *target)
{
    const uint64_t swapped = target->status.swap_bytes;
    struct headroom headroom;
    bool leaves = swapped && headroom_read(target->proc, target_via(target), &headroom) &&
                  headroom.bytes < swapped;

    if (leaves == memory->leaves_swapped)
        return;
    if (leaves)
        (void)pagemap_open(&memory->pages, target->proc, target_via(target));
    else
        pagemap_close(&memory->pages);
    memory->leaves_swapped = leaves;
}

/* A page of which nothing is known may be in swap. */
static bool is_left_out(struct memory *memory, remote_addr addr, size_t len)
{
    enum { STEP = 64 };
    enum page_state states[STEP];
    const unsigned page = memory->pages.page;
    size_t pages;

    if (!memory->leaves_swapped || memory->stopped_tid || !len)
        return false;
    pages = (size_t)((addr + len - 1) / page - addr / page) + 1;
    for (size_t at = 0, n; at < pages; at += n) {
        n = pages - at < STEP ? pages - at : STEP;
        pagemap_states(&memory->pages, addr + at * page, states, n);
        for (size_t i = 0; i < n; i++)
            if (states[i] == PAGE_SWAPPED || states[i] == PAGE_UNKNOWN) {
                memory->left_out++;
                errno = EFAULT;
                return true;
            }
    }
    return false;
}

void memory_open(struct memory *memory, const struct target *target, struct gate *gate)
{
    memset(memory, 0, sizeof *memory);
    memory->pid = target_via(target);
    memory->gate = gate;
    memory->memfd = procfs_openf(target->proc, O_RDWR, "%d/mem", (int)target_via(target));
    memory->memfd_writable = memory->memfd >= 0;
    if (memory->memfd < 0)
        memory->memfd = procfs_openf(target->proc, O_RDONLY, "%d/mem", (int)target_via(target));
    memory->mapsfd = -1;
    if (memory->memfd < 0) {
        memory->memfd = -1;
        memory->mapsfd = procfs_openf(target->proc, O_RDONLY, "%d/maps", (int)target_via(target));
    }
    memory_heed_swap(memory, target);
}

void memory_open_source(struct memory *memory, const struct memory_source *source)
{
    memset(memory, 0, sizeof *memory);
    memory->source = *source;
    memory->memfd = memory->mapsfd = -1;
}

void memory_close(struct memory *memory)
{
    util_close(&memory->memfd);
    util_close(&memory->mapsfd);
    if (memory->leaves_swapped)
        pagemap_close(&memory->pages);
    free(memory->cache);
    free(memory->unchanging);
    free(memory->guarded);
    memset(memory, 0, sizeof *memory);
    memory->memfd = memory->mapsfd = -1;
}

/*
 * An open mem or maps file belongs to the address space for which it was opened,
 * and is empty once exec has replaced that (fs/proc/base.c, mem_rw;
 * fs/proc/task_mmu.c, m_start).
 */
bool memory_is_same(const struct memory *memory, remote_addr addr)
{
    char byte;

    if (memory->memfd >= 0)
        return pread(memory->memfd, &byte, 1, (off_t)addr) == 1;
    return memory->mapsfd < 0 || pread(memory->mapsfd, &byte, 1, 0) == 1;
}

void memory_forget(struct memory *memory)
{
    for (size_t i = 0; memory->cache && i < MEMORY_CACHE_PAGES; i++)
        memory->cache[i].addr = PAGE_EMPTY;
}

void memory_set_unchanging(struct memory *memory, struct memory_range *ranges, size_t count)
{
    free(memory->unchanging);
    memory->unchanging = ranges;
    memory->unchanging_count = count;
    memory_forget(memory);
}

void memory_set_guarded(struct memory *memory, struct memory_range *ranges, size_t count)
{
    free(memory->guarded);
    memory->guarded = ranges;
    memory->guarded_count = count;
}

/* True if a range of the list begins before end, and ends after addr. */
static bool list_reaches(const struct memory_range *list, size_t count, remote_addr addr,
                         remote_addr end)
{
    size_t low = SEARCH_FIRST(i, count, addr < list[i].end);
    return low < count && list[low].start < end;
}

bool memory_is_unchanging(const struct memory *memory, remote_addr addr)
{
    return list_reaches(memory->unchanging, memory->unchanging_count, addr, addr + 1);
}

/* The kernel itself refuses with EPERM; a seccomp filter may use another errno. */
static bool is_refusal(int err)
{
    return err == EPERM || err == ENOSYS || err == EACCES;
}

/*
 * Returns the id by which to access the memory. A thread that has ended has none
 * (mm/process_vm_access.c: ESRCH); that applies to the first thread, too, even if
 * the process continues. The stopped thread has it.
 */
static pid_t access_tid(const struct memory *memory)
{
    return memory->stopped_tid ? memory->stopped_tid : memory->pid;
}

static bool read_vm(struct memory *memory, remote_addr addr, void *buf, size_t len)
{
    struct iovec local = {buf, len};
    struct iovec remote = {(void *)(uintptr_t)addr, len};

    if (memory->no_vm)
        return false;
    ssize_t n = process_vm_readv(access_tid(memory), &local, 1, &remote, 1, 0);
    if (n < 0 && is_refusal(errno))
        memory->no_vm = true;
    if (n >= 0 && (size_t)n != len)
        errno = EFAULT;
    return n >= 0 && (size_t)n == len;
}

/* The file is empty once the address space is gone (fs/proc/base.c, mem_rw). */
static bool read_mem(const struct memory *memory, remote_addr addr, void *buf, size_t len)
{
    ssize_t n = pread(memory->memfd, buf, len, (off_t)addr);

    errno = n == 0 ? ESRCH : EFAULT;
    return n >= 0 && (size_t)n == len;
}

/* Reads word by word; the last word may extend past the end. */
static bool read_peek(struct memory *memory, remote_addr addr, void *buf, size_t len)
{
    unsigned char *out = buf;

    while (len > 0) {
        uint64_t word;
        size_t skip = addr & 7, n = 8 - skip < len ? 8 - skip : len;
        if (gate_ptrace(memory->gate, PTRACE_PEEKDATA, memory->stopped_tid, addr - skip,
                        (uint64_t)(uintptr_t)&word) < 0) {
            errno = errno == EIO ? EFAULT : errno;
            return false;
        }
        memcpy(out, (char *)&word + skip, n);
        out += n;
        addr += n;
        len -= n;
    }
    return true;
}

bool memory_read(struct memory *memory, remote_addr addr, void *buf, size_t len)
{
    if (addr + len < addr) {
        errno = EFAULT;
        return false;
    }
    if (memory->source.read)
        return memory->source.read(memory->source.ctx, addr, buf, len);
    if (is_left_out(memory, addr, len))
        return false;
    if (memory->memfd >= 0 &&
        !list_reaches(memory->guarded, memory->guarded_count, addr, addr + len))
        return read_mem(memory, addr, buf, len);
    if (read_vm(memory, addr, buf, len))
        return true;
    if (memory->no_vm && memory->memfd < 0 && memory->stopped_tid)
        return read_peek(memory, addr, buf, len);
    if (memory->memfd >= 0)
        errno = EFAULT; /* guarded; ESRCH would only mean the first thread */
    else if (memory->no_vm)
        errno = EPERM;
    return false;
}

void memory_read_pages(struct memory *memory, remote_addr addr, unsigned char *buf, size_t len)
{
    if (memory_read(memory, addr, buf, len))
        return;
    for (size_t at = 0, n; at < len; at += n) {
        n = MEMORY_PAGE - (addr + at) % MEMORY_PAGE;
        if (n > len - at)
            n = len - at;
        if (!memory_read(memory, addr + at, buf + at, n))
            memset(buf + at, 0, n);
    }
}

bool memory_read_cached(struct memory *memory, remote_addr addr, void *buf, size_t len)
{
    unsigned char *out = buf;

    if (len > 4 * MEMORY_PAGE)
        return memory_read(memory, addr, buf, len);
    /* The cache is allocated at its first use: most processes of a host are read a few bytes only.
     */
    if (!memory->cache) {
        memory->cache = malloc(MEMORY_CACHE_PAGES * sizeof *memory->cache);
        memory_forget(memory);
    }
    for (size_t n; len > 0; out += n, addr += n, len -= n) {
        const size_t skip = addr % MEMORY_PAGE;
        const remote_addr page = addr - skip;
        struct memory_page *slot;

        n = MEMORY_PAGE - skip < len ? MEMORY_PAGE - skip : len;
        if (!memory_is_unchanging(memory, addr)) {
            if (!memory_read(memory, addr, out, n))
                return false;
            continue;
        }
        if (!memory->cache)
            return false;
        slot = &memory->cache[(page / MEMORY_PAGE) % MEMORY_CACHE_PAGES];
        if (slot->addr != page) {
            slot->addr = PAGE_EMPTY;
            if (!memory_read(memory, page, slot->bytes, MEMORY_PAGE))
                return false;
            slot->addr = page;
        }
        memcpy(out, slot->bytes + skip, n);
    }
    return true;
}

ssize_t memory_read_string(struct memory *memory, remote_addr addr, char *buf, size_t size)
{
    size_t used = 0;

    while (used < size) {
        size_t in_page = MEMORY_PAGE - (addr + used) % MEMORY_PAGE;
        size_t n = in_page < size - used ? in_page : size - used;
        if (!memory_read(memory, addr + used, buf + used, n))
            return -1;
        const char *nul = memchr(buf + used, 0, n);
        if (nul)
            return nul - buf;
        used += n;
    }
    errno = ENAMETOOLONG;
    return -1;
}

bool memory_grow_stack(struct memory *memory, remote_addr addr)
{
    char byte;

    if (memory->memfd >= 0)
        return read_mem(memory, addr, &byte, 1);
    return memory->stopped_tid && read_peek(memory, addr, &byte, 1);
}

static bool write_mem(struct memory *memory, remote_addr addr, const void *buf, size_t len)
{
    if (!memory->memfd_writable)
        return false;
    ssize_t n = gate_mem_write(memory->gate, memory->memfd, addr, buf, len);
    return n >= 0 && (size_t)n == len;
}

bool memory_write(struct memory *memory, remote_addr addr, const void *buf, size_t len)
{
    if (memory->source.read) {
        errno = EROFS;
        return false;
    }
    if (!memory->no_vm_write) {
        ssize_t n = gate_vm_write(memory->gate, access_tid(memory), addr, buf, len);
        if (n >= 0 || !is_refusal(errno))
            return n >= 0 && (size_t)n == len; /* not by force: guard pages stay guard pages */
        memory->no_vm_write = true;
    }
    return memory_write_code(memory, addr, buf, len);
}

bool memory_write_running(struct memory *memory, remote_addr addr, const void *buf, size_t len)
{
    if (is_left_out(memory, addr, len))
        return false;
    if (write_mem(memory, addr, buf, len))
        return true;
    return memory_is_same(memory, addr) && memory_write(memory, addr, buf, len);
}

bool memory_write_code(struct memory *memory, remote_addr addr, const void *buf, size_t len)
{
    const unsigned char *in = buf;

    if (write_mem(memory, addr, buf, len))
        return true;
    if (!memory->stopped_tid)
        return false;
    /* Pokes write whole words: a partial one is read first, to keep its other bytes. */
    while (len > 0) {
        uint64_t word = 0;
        size_t skip = addr & 7, n = 8 - skip < len ? 8 - skip : len;
        if (n < 8 && !read_peek(memory, addr - skip, &word, 8))
            return false;
        memcpy((char *)&word + skip, in, n);
        if (gate_ptrace(memory->gate, PTRACE_POKEDATA, memory->stopped_tid, addr - skip, word) < 0)
            return false;
        in += n;
        addr += n;
        len -= n;
    }
    return true;
}

ssize_t environ_read(const struct target *target, struct memory *memory, char **out, size_t limit)
{
    ssize_t n = procfs_slurp(target->proc, out, limit, "%d/environ", (int)target_via(target));
    AUTO_FREE char *text = NULL;
    struct proc_stat stat;

    if (n != -EACCES && n != -EPERM)
        return n;
    n = process_stat(target->proc, target_via(target), &stat);
    if (n < 0)
        return n == -EBADMSG ? -EACCES : n;
    if (!stat.env_start || stat.env_end < stat.env_start)
        return -EACCES; /* the kernel shows 0 to readers who may not trace it */
    size_t len = stat.env_end - stat.env_start;
    if (len > limit)
        return -EFBIG;
    text = malloc(len + 1);
    if (!text)
        return -ENOMEM;
    if (len && !memory_read(memory, stat.env_start, text, len))
        return errno ? -errno : -EFAULT;
    text[len] = '\0';
    *out = steal_ptr(&text);
    return (ssize_t)len;
}
