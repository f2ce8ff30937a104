/* The mappings of a target, and the ELF files among them. */
#pragma once

#include "attach/memory.h"
#include "base/arena.h"
#include "base/util.h"

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>

struct vma {
    remote_addr start, end;
    unsigned prot; /* MAP_* */
    bool stack;    /* the kernel names it [stack] */
    int module;    /* index into modules.list, or -1 */
};

struct module {
    const char *path;       /* as the target sees it, without " (deleted)"; or "[vdso]" */
    bool deleted;           /* unlinked since it was mapped */
    remote_addr start, end; /* from the start of its first to the end of its last mapping */
    remote_addr exec_start, exec_end; /* the same of its executable mappings; equal: none */
    remote_addr first_end; /* end of the mapping at start: /proc/PID/map_files/start-first_end */
    unsigned dev_major, dev_minor;
    uint64_t inode; /* 0: [vdso] */
};

static inline bool module_has_code(const struct module *module, remote_addr address)
{
    return address >= module->exec_start && address < module->exec_end;
}

struct modules {
    struct vma *vmas;
    size_t vma_count, vma_capacity;
    struct module *list;
    size_t count, capacity;
    struct arena paths; /* neighbours in the list share one */
};

/*
 * Reads /proc/PID/maps (target_maps); the caller frees *text. FAULT_GONE: the process has no
 * memory any more; FAULT_DENIED; FAULT_UNSUPPORTED: the text is too long.
 */
fault_code modules_read_maps(const struct target *target, char **text, size_t *len,
                             struct fault *fault);

/* Reads it once. modules_free releases everything. */
fault_code modules_load(struct modules *modules, const struct target *target, struct fault *fault);
/* Does the same for a text, which is not kept. */
bool modules_parse(struct modules *modules, const char *text, size_t len);
void modules_free(struct modules *modules);
/* True if the same code of the same files is at the same addresses in both. */
bool modules_same_code(const struct modules *a, const struct modules *b);

/*
 * Tells memory which pages of this list cannot change, for its page cache: the
 * private mappings of files that nobody can write; and which it must not read by
 * force: those without read permission, of devices, and the gap below the stack.
 * Call it each time the list has been read.
 */
void modules_tell_memory(const struct modules *modules, struct memory *memory);

/* Records that the kernel has extended [stack], if the list has one, down to the page of addr. */
void modules_stack_grew(struct modules *modules, remote_addr addr);

/* Returns the mapping that contains addr, or NULL. */
const struct vma *modules_vma_at(const struct modules *modules, remote_addr addr);
/* Returns the module that contains addr, or NULL. */
const struct module *modules_at(const struct modules *modules, remote_addr addr);

/* Returns the last component of a module's path. */
const char *module_name(const struct module *module);

/*
 * Opens the file behind a module for reading (modulefile.c): through
 * /proc/PID/map_files, which is exactly the mapped file and may be refused;
 * through /proc/PID/exe; by its path below the target's own root, never outside
 * it; and by its path in the tool's root. The file is a regular file, and its
 * build-id is that of the mapped note. Without build-ids, device and inode must
 * agree, or headers and code if a file system shows another device. Returns a
 * file descriptor, owned by the caller, or -errno; -ESTALE: another file has
 * this path now.
 *
 * For a process of a core file (struct target_record): the program that is named
 * there, else the file at its path below the root that is named there.
 */
int module_open(const struct module *module, const struct target *target, struct memory *memory);

/* ---- sorted ranges of code addresses, searched for every word of a stack ---- */

struct code_range {
    remote_addr start, end;
    const char *what; /* static text, for messages: "the dynamic loader" */
};

struct code_ranges {
    struct code_range *list;
    size_t count;
};

/* Adds [start, end); ignores an empty range. False: out of memory. */
bool ranges_add(struct code_ranges *ranges, remote_addr start, remote_addr end, const char *what);
/* Call it once after the last ranges_add. */
void ranges_sort(struct code_ranges *ranges);
/* Returns the range that contains addr, or NULL. */
const struct code_range *ranges_find(const struct code_ranges *ranges, remote_addr addr);
void ranges_free(struct code_ranges *ranges);
