#include "elf/modules.h"
#include "base/list.h"
#include "base/search.h"
#include "base/text.h"
#include "elf/faults.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool entry_named(const struct map_entry *entry, const char *name)
{
    return strncmp(name, entry->path, entry->path_len) == 0 && !name[entry->path_len];
}

/*
 * Returns the decoded path of a mapping without the kernel's mark, owned by the list; NULL: out
 * of memory. /proc/PID/maps writes a newline in a name as \012 and all other bytes unchanged
 * (seq_file_path).
 */
static const char *module_path(struct modules *modules, struct map_entry entry, bool *deleted)
{
    static const char mark[] = " (deleted)";
    const size_t n = sizeof mark - 1;
    const char *last = modules->count ? modules->list[modules->count - 1].path : NULL;

    *deleted =
        entry.inode && entry.path_len > n && memcmp(entry.path + entry.path_len - n, mark, n) == 0;
    if (*deleted)
        entry.path_len -= n;
    /* No decoded path has \012 in it: a text that equals one is its own decoding. */
    if (last && entry_named(&entry, last))
        return last;

    char *path = arena_alloc(&modules->paths, entry.path_len + 1), *out = path;
    for (size_t i = 0; path && i < entry.path_len; i++) {
        if (entry.path_len - i >= 4 && memcmp(entry.path + i, "\\012", 4) == 0) {
            *out++ = '\n';
            i += 3;
        } else {
            *out++ = entry.path[i];
        }
    }
    return path;
}

/* Returns the module of a mapping and creates it if needed; -1: none; -2: out of memory. */
static int module_of_entry(struct modules *modules, const struct map_entry *entry)
{
    struct module *last = modules->count ? &modules->list[modules->count - 1] : NULL;
    bool continues;

    if (entry->inode == 0 && !entry_named(entry, "[vdso]"))
        return -1;
    continues = last && entry->inode != 0 && last->inode == entry->inode &&
                last->dev_major == entry->dev_major && last->dev_minor == entry->dev_minor;
    /*
     * A process may map one of its own files a second time, to read it. A group starts with the ELF
     * header: a mapping of offset 0 that is read-only, or that is not adjacent to the mapping
     * before. (For a small file, lld also gives code and data offset 0.)
     */
    if (continues && entry->offset == 0)
        continues = entry->prot & (MAP_WRITE | MAP_EXEC) && entry->start == last->end;
    if (!continues) {
        struct module module = {
            .start = entry->start,
            .first_end = entry->end,
            .dev_major = entry->dev_major,
            .dev_minor = entry->dev_minor,
            .inode = entry->inode,
        };
        if (!LIST_GROW(modules->list, modules->capacity, modules->count))
            return -2;
        module.path = module_path(modules, *entry, &module.deleted);
        if (!module.path)
            return -2;
        modules->list[modules->count++] = module;
        last = &modules->list[modules->count - 1];
    }
    last->end = entry->end;
    if (entry->prot & MAP_EXEC) {
        if (last->exec_start == last->exec_end)
            last->exec_start = entry->start;
        last->exec_end = entry->end;
    }
    return (int)(modules->count - 1);
}

bool modules_parse(struct modules *modules, const char *text, size_t len)
{
    struct cursor maps = cursor_of(text, len);
    struct map_entry entry;
    remote_addr last_end = 0;
    size_t at = 0;
    int rc;

    memset(modules, 0, sizeof *modules);
    while ((rc = parse_map_line(&maps, &entry)) != 0) {
        if (rc < 0 || entry.start < last_end) /* the kernel writes them in ascending order */
            continue;
        last_end = entry.end;
        int module = LIST_GROW(modules->vmas, modules->vma_capacity, modules->vma_count)
                         ? module_of_entry(modules, &entry)
                         : -2;
        if (module == -2) {
            modules_free(modules);
            return false;
        }
        modules->vmas[modules->vma_count++] = (struct vma){
            .start = entry.start,
            .end = entry.end,
            .prot = entry.prot,
            .stack = entry.inode == 0 && entry_named(&entry, "[stack]"),
            .module = module,
        };
    }

    /*
     * Some programs move all of their code into anonymous memory, for huge pages: it is at the
     * addresses of the file's code, between the other mappings of the file.
     */
    for (size_t i = 0; i < modules->vma_count; i++) {
        const struct vma *vma = &modules->vmas[i];
        while (at < modules->count && modules->list[at].end <= vma->start)
            at++;
        if (at == modules->count)
            break;
        struct module *module = &modules->list[at];
        bool has_code = module->exec_start != module->exec_end;
        if (vma->module < 0 && vma->prot & MAP_EXEC && vma->start >= module->start && !has_code) {
            module->exec_start = vma->start;
            module->exec_end = vma->end;
        }
    }
    return true;
}

fault_code modules_read_maps(const struct target *target, char **text, size_t *len,
                             struct fault *fault)
{
    ssize_t n = target_maps(target, text);

    *len = n > 0 ? (size_t)n : 0;
    if (n > 0)
        return FAULT_NONE;
    if (n == 0 || n == -ESRCH || n == -ENOENT) /* without memory: it is ending */
        return fault_set(fault, FAULT_GONE, ESRCH, "read maps", "%d", target->pid);
    if (n == -EACCES || n == -EPERM) /* perhaps it has become non-dumpable */
        return fault_set(fault, FAULT_DENIED, (int)-n, "read maps", "%d", target->pid);
    if (n == -EFBIG)
        return fault_set(fault, FAULT_UNSUPPORTED, 0, "read maps",
                         "its list of mappings is longer than %d MiB", TARGET_MAPS_MAX >> 20);
    return fault_set(fault, FAULT_INTERNAL, (int)-n, "read maps", "%d", target->pid);
}

fault_code modules_load(struct modules *modules, const struct target *target, struct fault *fault)
{
    AUTO_FREE char *text = NULL;
    size_t len;
    fault_code rc = modules_read_maps(target, &text, &len, fault);

    memset(modules, 0, sizeof *modules);
    if (rc == FAULT_NONE && !modules_parse(modules, text, len))
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "read maps", "%d", target->pid);
    return rc;
}

/* Returns the next mapping from *at on that contains code of a file; NULL: none. */
static const struct vma *next_code(const struct modules *modules, size_t *at)
{
    while (*at < modules->vma_count) {
        const struct vma *vma = &modules->vmas[(*at)++];
        if (vma->prot & MAP_EXEC && vma->module >= 0)
            return vma;
    }
    return NULL;
}

bool modules_same_code(const struct modules *a, const struct modules *b)
{
    size_t i = 0, j = 0;

    for (;;) {
        const struct vma *x = next_code(a, &i), *y = next_code(b, &j);
        if (!x || !y)
            return !x && !y;
        const struct module *m = &a->list[x->module], *n = &b->list[y->module];
        if (x->start != y->start || x->end != y->end || m->start != n->start)
            return false;
        if (m->inode != n->inode || m->dev_major != n->dev_major || m->dev_minor != n->dev_minor ||
            m->deleted != n->deleted || strcmp(m->path, n->path) != 0)
            return false;
    }
}

void modules_free(struct modules *modules)
{
    arena_free(&modules->paths);
    free(modules->list);
    free(modules->vmas);
    memset(modules, 0, sizeof *modules);
}

static bool is_below(const char *path, const char *directory)
{
    return strncmp(path, directory, strlen(directory)) == 0;
}

/* The kernel asks a device for what it maps; a heap may be in shared memory and huge pages. */
static bool is_device(const char *path)
{
    return is_below(path, "/sys/") || is_below(path, "/proc/bus/") ||
           is_below(path, "anon_inode:") ||
           (is_below(path, "/dev/") && !is_below(path, "/dev/shm/") &&
            !is_below(path, "/dev/hugepages/") && strcmp(path, "/dev/zero") != 0);
}

void modules_tell_memory(const struct modules *modules, struct memory *memory)
{
    const size_t capacity = modules->vma_count ? modules->vma_count : 1;
    struct memory_range *unchanging = calloc(capacity, sizeof *unchanging);
    struct memory_range *guarded = calloc(capacity, sizeof *guarded);
    size_t count = 0, guarded_count = 0;

    if (!unchanging || !guarded) {
        free(unchanging);
        free(guarded);
        return; /* the former lists stay */
    }
    for (size_t i = 0; i < modules->vma_count; i++) {
        const struct vma *vma = &modules->vmas[i];
        const struct module *module = vma->module < 0 ? NULL : &modules->list[vma->module];
        const struct memory_range whole = {vma->start, vma->end};
        const struct memory_range gap = {i ? vma[-1].end : 0, vma->start};

        /* A thread may have its stack in any writable memory, including a mapping of a file. */
        if (module && module->inode &&
            (vma->prot & (MAP_READ | MAP_WRITE | MAP_SHARED_)) == MAP_READ)
            unchanging[count++] = whole;
        if (vma->stack)
            guarded[guarded_count++] = gap;
        else if (!(vma->prot & MAP_READ) || (module && is_device(module->path)))
            guarded[guarded_count++] = whole;
    }
    memory_set_unchanging(memory, unchanging, count);
    memory_set_guarded(memory, guarded, guarded_count);
}

void modules_stack_grew(struct modules *modules, remote_addr addr)
{
    remote_addr page = addr & ~(remote_addr)(MEMORY_PAGE - 1);

    for (size_t i = 0; i < modules->vma_count; i++)
        if (modules->vmas[i].stack && modules->vmas[i].start > page)
            modules->vmas[i].start = page;
}

const struct vma *modules_vma_at(const struct modules *modules, remote_addr addr)
{
    size_t low = SEARCH_FIRST(i, modules->vma_count, addr < modules->vmas[i].end);
    return low < modules->vma_count && addr >= modules->vmas[low].start ? &modules->vmas[low]
                                                                        : NULL;
}

const struct module *modules_at(const struct modules *modules, remote_addr addr)
{
    const struct vma *vma = modules_vma_at(modules, addr);
    return vma && vma->module >= 0 ? &modules->list[vma->module] : NULL;
}

const char *module_name(const struct module *module)
{
    return text_base_name(module->path);
}

bool ranges_add(struct code_ranges *ranges, remote_addr start, remote_addr end, const char *what)
{
    struct code_range *list;

    if (start >= end)
        return true;
    list = reallocarray(ranges->list, ranges->count + 1, sizeof *list);
    if (!list)
        return false;
    ranges->list = list;
    list[ranges->count++] = (struct code_range){start, end, what};
    return true;
}

static int compare_range_start(const void *a, const void *b)
{
    const struct code_range *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* Merges overlapping ranges, so that a binary search by start is sufficient. */
void ranges_sort(struct code_ranges *ranges)
{
    size_t kept = 0;

    if (ranges->count == 0)
        return;
    qsort(ranges->list, ranges->count, sizeof *ranges->list, compare_range_start);
    for (size_t i = 1; i < ranges->count; i++) {
        struct code_range *last = &ranges->list[kept], *next = &ranges->list[i];
        if (next->start >= last->end)
            ranges->list[++kept] = *next;
        else if (next->end > last->end)
            last->end = next->end;
    }
    ranges->count = kept + 1;
}

const struct code_range *ranges_find(const struct code_ranges *ranges, remote_addr addr)
{
    size_t low = SEARCH_FIRST(i, ranges->count, addr < ranges->list[i].end);
    return low < ranges->count && addr >= ranges->list[low].start ? &ranges->list[low] : NULL;
}

void ranges_free(struct code_ranges *ranges)
{
    free(ranges->list);
    memset(ranges, 0, sizeof *ranges);
}
