#include "elf/core_memory.h"
#include "elf/image.h"

#include <errno.h>
#include <string.h>

enum { LACKING_SLOTS = 2 * CORE_LACKS_COUNTED };

/* ---- the files ---- */

static uint64_t page_down(uint64_t addr)
{
    return addr & ~(uint64_t)(MEMORY_PAGE - 1);
}

/* Whole pages: the kernel maps what follows in the file, or zeros, behind the end of a part. */
static void note_fixed_parts(struct core_module *state, remote_addr start)
{
    Elf64_Phdr phdrs[IMAGE_PHDRS_MAX];
    size_t count = file_phdrs(state->fd, phdrs);
    uint64_t bias = 0;
    bool known = false;

    for (size_t i = 0; i < count && state->fixed_count < ARRAY_LEN(state->fixed); i++) {
        const Elf64_Phdr *ph = &phdrs[i];
        if (ph->p_type != PT_LOAD)
            continue;
        if (!known)
            bias = start - page_down(ph->p_vaddr);
        known = true;
        if (ph->p_flags & PF_W)
            continue;
        state->fixed[state->fixed_count++] =
            (struct memory_range){page_down(ph->p_vaddr) + bias,
                                  page_down(ph->p_vaddr + ph->p_filesz + MEMORY_PAGE - 1) + bias};
    }
}

/* Returns the file of the module at addr, or NULL: none. */
static struct core_module *module_state(struct core_memory *memory, remote_addr addr)
{
    const struct module *module = modules_at(memory->modules, addr);
    struct core_module *state;

    if (!module || !module->inode)
        return NULL;
    if (!memory->list) {
        memory->count = memory->modules->count;
        memory->list = calloc(memory->count, sizeof *memory->list);
        if (!memory->list)
            return NULL;
    }
    state = &memory->list[module - memory->modules->list];
    if (state->tried)
        return state;
    state->tried = true;
    state->fd = module_open(module, memory->target, &memory->own);
    if (state->fd < 0) {
        state->err = -state->fd;
        state->fd = -1;
        return state;
    }
    note_fixed_parts(state, module->start);
    return state;
}

/* Reads up to the end of the file; the rest of its last page is zero. Returns 0: nothing. */
static size_t read_padded(int fd, uint64_t offset, unsigned char *buf, size_t len)
{
    ssize_t n = offset <= INT64_MAX ? pread(fd, buf, len, (off_t)offset) : -1;

    if (n <= 0)
        return 0;
    size_t tail = (size_t)(-(offset + (uint64_t)n) % MEMORY_PAGE), rest = len - (size_t)n;
    if (rest > tail)
        rest = tail;
    memset(buf + n, 0, rest);
    return (size_t)n + rest;
}

/*
 * Reads what the file has. Where the file's own program headers allow writes, the bytes
 * in memory may have differed (also those that the dynamic linker made read-only later).
 */
static size_t read_mapped_file(struct core_memory *memory, remote_addr addr, unsigned char *buf,
                               size_t len)
{
    const struct core_mapping *mapping = core_mapping_at(memory->core, addr);
    const struct core_module *state = mapping ? module_state(memory, addr) : NULL;

    if (!state || state->fd < 0)
        return 0;
    for (size_t i = 0; i < state->fixed_count; i++)
        if (addr >= state->fixed[i].start && addr < state->fixed[i].end) {
            remote_addr end =
                state->fixed[i].end < mapping->end ? state->fixed[i].end : mapping->end;
            size_t n = end - addr < len ? (size_t)(end - addr) : len;
            return read_padded(state->fd, mapping->offset + (addr - mapping->start), buf, n);
        }
    return 0;
}

/* ---- what lacks ---- */

/* True if the page is new; false also if no more are counted. */
static bool note_page(struct core_memory *memory, remote_addr page)
{
    size_t at = (size_t)((page / MEMORY_PAGE * 0x9e3779b97f4a7c15u) >> 40) % LACKING_SLOTS;

    if (!memory->lacking)
        memory->lacking = calloc(LACKING_SLOTS, sizeof *memory->lacking);
    if (!memory->lacking || memory->lacks >= CORE_LACKS_COUNTED)
        return false;
    while (memory->lacking[at] && memory->lacking[at] != page + 1)
        at = (at + 1) % LACKING_SLOTS;
    bool is_new = !memory->lacking[at];
    memory->lacking[at] = page + 1;
    return is_new;
}

static void note_lack(struct core_memory *memory, remote_addr addr)
{
    const struct module *module = modules_at(memory->modules, addr);
    bool was_mapped = core_segment_at(memory->core, addr) || core_mapping_at(memory->core, addr);

    if (!was_mapped || (module && module->exec_start == module->exec_end) /* a file of data */ ||
        !note_page(memory, addr - addr % MEMORY_PAGE))
        return;
    memory->lacks++;
    struct core_module *state = module_state(memory, addr);
    if (state)
        state->lacks++;
    else
        memory->anonymous_lacks++;
}

/* Reads what the core contains, and with files also what it left out. */
static bool read_core_bytes(struct core_memory *memory, bool files, remote_addr addr,
                            unsigned char *out, size_t len)
{
    while (len > 0) {
        size_t n = core_read(memory->core, addr, out, len);
        if (n == 0 && files)
            n = read_mapped_file(memory, addr, out, len);
        if (n == 0) {
            if (files)
                note_lack(memory, addr);
            errno = EFAULT;
            return false;
        }
        addr += n;
        out += n;
        len -= n;
    }
    return true;
}

static bool read_only_dumped(void *ctx, remote_addr addr, void *buf, size_t len)
{
    return read_core_bytes(ctx, false, addr, buf, len);
}

static bool read_core_memory(void *ctx, remote_addr addr, void *buf, size_t len)
{
    return read_core_bytes(ctx, true, addr, buf, len);
}

void core_memory_init(struct core_memory *memory, const struct core *core,
                      const struct modules *modules, const struct target *target)
{
    const struct memory_source own = {read_only_dumped, memory};

    memset(memory, 0, sizeof *memory);
    memory->core = core;
    memory->modules = modules;
    memory->target = target;
    memory->source = (struct memory_source){read_core_memory, memory};
    memory_open_source(&memory->own, &own);
}

void core_memory_free(struct core_memory *memory)
{
    for (size_t i = 0; memory->list && i < memory->count; i++)
        if (memory->list[i].tried)
            util_close(&memory->list[i].fd);
    free(memory->list);
    free(memory->lacking);
    memory_close(&memory->own);
    memset(memory, 0, sizeof *memory);
}

const struct module *core_memory_lack(const struct core_memory *memory, size_t *at,
                                      const struct core_module **state)
{
    for (; memory->list && *at < memory->count; ++*at) {
        if (!memory->list[*at].lacks)
            continue;
        *state = &memory->list[*at];
        return &memory->modules->list[(*at)++];
    }
    return NULL;
}
