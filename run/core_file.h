/*
 * A process that has ended, opened from its core file: an attachment without a process,
 * from which a profile can be read, and on which no call is possible.
 */
#pragma once

#include "elf/core_memory.h"
#include "jemalloc/reader/reader.h"
#include "run/access.h"
#include "run/attachment.h"

struct core_request {
    const char *file;    /* "-": stdin; a pipe is copied first (host/spool.h) */
    const char *program; /* the file of its program; NULL: found by its path */
    const char *root;    /* directory below which the paths are; NULL: "/" */
    size_t instance;     /* of jemalloc, from 1; 0: the default */
    const struct run_events *events;
};

struct core_file {
    struct core core;
    struct core_memory memory;
    struct target_record record;
    char *maps;
};

/*
 * Opens it, and finds jemalloc in it. Neither may move afterwards, and both must be
 * closed also after a failure, the attachment first.
 *
 * FAULT_CORE_INPUT, FAULT_CORE, FAULT_FOREIGN_ABI: the file cannot be used.
 * FAULT_CORE_PROGRAM: request->program is another program. FAULT_CORE_LACKS,
 * FAULT_CORE_FILES: it does not contain what is needed, and no file has it. FAULT_NO_ALLOCATOR,
 * FAULT_NO_INSTANCE, FAULT_UNSUPPORTED: those of instances_find.
 */
fault_code core_file_open(struct core_file *file, struct attachment *attachment,
                          const struct core_request *request, struct fault *fault);
void core_file_close(struct core_file *file);

/*
 * Reads the profile, with the mappings, into the capture, whose time stays unknown; sets
 * attachment->read.last.
 * FAULT_PROF_ABSENT, FAULT_PROF_DISABLED: the process had none. FAULT_CORE_LACKS,
 * FAULT_CORE_FILES: it cannot be proven.
 */
fault_code core_file_read(const struct core_file *file, struct attachment *attachment,
                          struct capture *capture, struct fault *fault);
