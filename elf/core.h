/*
 * An ELF core file: what a process had mapped when it ended, and the bytes that were
 * kept of it (core(5); fs/binfmt_elf.c, elf_core_dump; also those of gcore(1)).
 *
 * A core file is untrusted, like the process that it is of: each offset and count is
 * bounded, and each read may fail.
 */
#pragma once

#include "base/fault.h"
#include "base/util.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A PT_LOAD: a mapping of the process. */
struct core_segment {
    remote_addr start, end;
    unsigned prot;   /* MAP_READ | MAP_WRITE | MAP_EXEC (host/task.h) */
    uint64_t dumped; /* bytes from start on that were kept; the others were left out on purpose */
    uint64_t offset; /* of these, in the core file */
};

/* An entry of NT_FILE: a file that the process had mapped. */
struct core_mapping {
    remote_addr start, end;
    uint64_t offset;  /* bytes into the file */
    const char *path; /* as the process saw it; points into core->file_note */
};

struct core {
    int fd;
    uint64_t size;                 /* of the core file, bytes */
    uint64_t whole;                /* the size that its headers promise; more: it is truncated */
    struct core_segment *segments; /* ascending, without overlaps */
    size_t segment_count, segment_capacity;
    struct core_mapping *mappings; /* ascending, without overlaps */
    size_t mapping_count;
    char *file_note;
    char name[17];          /* comm; "": unknown */
    pid_t pid;              /* in its own pid namespace; 0: unknown */
    size_t threads;         /* NT_PRSTATUS */
    int signal;             /* that the first thread of the file was handling; 0: none */
    remote_addr program_at; /* an address in its program (AT_PHDR, else AT_ENTRY); 0: unknown */
    remote_addr vdso;       /* AT_SYSINFO_EHDR; 0: unknown */
};

/*
 * Reads the headers and notes of a core file, which must be seekable. Takes over fd
 * in any case. FAULT_CORE: it is none, or malformed; fault.what says why.
 * FAULT_FOREIGN_ABI: a core of a 32-bit process, or of another machine.
 */
fault_code core_open(struct core *core, int fd, struct fault *fault);
void core_close(struct core *core);

/* Returns the segment, or the mapping, that contains addr, or NULL. */
const struct core_segment *core_segment_at(const struct core *core, remote_addr addr);
const struct core_mapping *core_mapping_at(const struct core *core, remote_addr addr);

/*
 * Reads what the core file contains from addr on, at most len bytes. Returns their
 * number; 0: it does not contain that byte.
 */
size_t core_read(const struct core *core, remote_addr addr, void *buf, size_t len);

/* True if the file is shorter than its headers promise. */
static inline bool core_is_truncated(const struct core *core)
{
    return core->size < core->whole;
}

/*
 * Makes a text in the format of /proc/PID/maps of the segments and mappings. A mapping
 * is private as far as the core shows; the device is 00:00, and the inode is a number
 * that differs between neighbouring files. gcore(1) omits the segments of unchanged
 * files: their permissions are those of the program headers. Returns 0 or -errno: -EFBIG if
 * it is longer than TARGET_MAPS_MAX (attach/target.h), -EINTR. The caller frees *text.
 */
int core_maps(const struct core *core, char **text, size_t *len);
