#include "run/core_file.h"
#include "host/spool.h"
#include "jemalloc/dump.h"
#include "run/faults.h"
#include "run/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static fault_code refuse_input(struct fault *fault, int err, const char *what)
{
    return fault_set(fault, FAULT_CORE_INPUT, err, "open the core file", "%s", what);
}

/* ---- the inputs ---- */

static fault_code copy_pipe(int *fd, struct fault *fault)
{
    struct spool_result result;
    int copy = spool_pipe(*fd, ELFMAG, interrupt_flag(), &result);

    if (copy == -EINTR)
        return fault_set(fault, FAULT_INTERRUPTED, EINTR, "open the core file", "stdin");
    if (copy == -EFBIG)
        return fault_set(fault, FAULT_CORE_INPUT, 0, "open the core file",
                         "the core is larger than %llu MiB, which is what may be copied here: "
                         "unpack it to a file, or set TMPDIR to a directory with more space",
                         (unsigned long long)(result.limit >> 20));
    if (copy < 0)
        return refuse_input(fault, -copy, "the pipe could not be copied");
    util_close(fd);
    *fd = copy;
    return FAULT_NONE;
}

/* A pipe cannot be read at an offset. */
static fault_code open_core_input(const char *path, int *fd, struct fault *fault)
{
    bool from_stdin = strcmp(path, "-") == 0;
    struct stat st;

    *fd = from_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                     : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (*fd < 0 || fstat(*fd, &st))
        return refuse_input(fault, errno, path);
    if (S_ISDIR(st.st_mode))
        return refuse_input(fault, EISDIR, path);
    if (isatty(*fd))
        return refuse_input(fault, 0, "it is a terminal");
    return S_ISREG(st.st_mode) ? FAULT_NONE : copy_pipe(fd, fault);
}

static fault_code open_core(struct core_file *file, const char *path, struct fault *fault)
{
    AUTO_CLOSE int fd = -1;
    fault_code rc = open_core_input(path, &fd, fault);

    if (rc == FAULT_NONE)
        rc = core_open(&file->core, steal_fd(&fd), fault);
    if (rc == FAULT_CORE && *interrupt_flag())
        return fault_set(fault, FAULT_INTERRUPTED, EINTR, "read the core file", "its notes");
    return rc;
}

static fault_code open_places(struct core_file *file, const struct core_request *request,
                              struct fault *fault)
{
    struct target_record *record = &file->record;
    struct stat st;

    if (request->root)
        record->root = open(request->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (request->root && record->root < 0)
        return fault_set(fault, FAULT_CORE_PROGRAM, errno, "open the files", "%s", request->root);
    if (request->program)
        record->program = open(request->program, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (request->program && (record->program < 0 || fstat(record->program, &st)))
        return fault_set(fault, FAULT_CORE_PROGRAM, errno, "open the files", "%s",
                         request->program);
    if (request->program && !S_ISREG(st.st_mode))
        return fault_set(fault, FAULT_CORE_PROGRAM, 0, "open the files", "%s is not a regular file",
                         request->program);
    return FAULT_NONE;
}

/* ---- the process ---- */

static fault_code make_record(struct core_file *file, struct target *target, struct fault *fault)
{
    struct target_record *record = &file->record;

    int err = core_maps(&file->core, &file->maps, &record->maps_len);
    if (err == -EINTR)
        return fault_set(fault, FAULT_INTERRUPTED, EINTR, "read the core file", "its mappings");
    if (err == -EFBIG)
        return fault_set(fault, FAULT_CORE, 0, "read the core file",
                         "its list of mappings is longer than %d MiB", TARGET_MAPS_MAX >> 20);
    if (err)
        return fault_set(fault, FAULT_INTERNAL, -err, "read the core file", "its mappings");
    record->maps = file->maps;
    record->program_at = file->core.program_at;
    memset(target, 0, sizeof *target);
    target->record = record;
    target->pid = file->core.pid;
    target->pidfd = -1;
    snprintf(target->stat.comm, sizeof target->stat.comm, "%s", file->core.name);
    return FAULT_NONE;
}

/* The operator should learn that --exe is wrong, also if it turns out not to be needed. */
static fault_code check_core_program(struct core_file *file, struct attachment *attachment,
                                     const struct core_request *request, struct fault *fault)
{
    const struct module *program = modules_at(&attachment->modules, file->core.program_at);
    AUTO_CLOSE int fd = -1;

    if (!request->program || !program)
        return FAULT_NONE;
    fd = module_open(program, &attachment->target, &file->memory.own);
    if (fd != -ESTALE)
        return FAULT_NONE;
    return fault_set(fault, FAULT_CORE_PROGRAM, 0, "open the files",
                     "%s is not the program of this core file (%s)", request->program,
                     program->path);
}

/* Returns how many files are not here that are needed. */
static size_t count_lacking_files(const struct core_memory *memory)
{
    const struct core_module *state;
    size_t at = 0, count = 0;

    while (core_memory_lack(memory, &at, &state))
        count += state->fd < 0;
    return count;
}

/* Says in the words of a core file what instances_find has found out. */
static fault_code restate(const struct core_file *file, fault_code rc, struct fault *fault)
{
    size_t files = count_lacking_files(&file->memory);

    if (rc == FAULT_NO_ALLOCATOR && files)
        return fault_set(fault, FAULT_CORE_FILES, 0, "look for jemalloc",
                         "no jemalloc found without %zu of them", files);
    if (rc == FAULT_NO_ALLOCATOR && file->memory.lacks)
        return fault_set(
            fault, FAULT_CORE_LACKS, 0, "look for jemalloc",
            "no jemalloc found, but memory that the process could write is not in it%s",
            core_is_truncated(&file->core) ? ", as it is truncated" : "");
    if (rc != FAULT_EXECED && rc != FAULT_GONE && rc != FAULT_DENIED)
        return rc;
    return fault_set(fault, FAULT_CORE_LACKS, 0, "look for jemalloc",
                     "no ELF header of a module could be read%s",
                     core_is_truncated(&file->core) ? ", as it is truncated" : "");
}

fault_code core_file_open(struct core_file *file, struct attachment *attachment,
                          const struct core_request *request, struct fault *fault)
{
    const struct attach_request attach = {.instance = request->instance, .events = request->events};
    struct target target;
    fault_code rc, wrong;

    memset(attachment, 0, sizeof *attachment);
    attachment->proc.dirfd = attachment->target.pidfd = -1;
    attachment->memory.memfd = attachment->memory.mapsfd = -1;
    *file = (struct core_file){.core.fd = -1, .record = {.root = -1, .program = -1}};
    rc = open_core(file, request->file, fault);
    if (rc == FAULT_NONE)
        rc = open_places(file, request, fault);
    if (rc == FAULT_NONE)
        rc = make_record(file, &target, fault);
    if (rc != FAULT_NONE)
        return rc;
    core_memory_init(&file->memory, &file->core, &attachment->modules, &attachment->target);
    rc = attachment_look_recorded(attachment, &attach, &target, &file->memory.source, fault);
    attachment->root = request->root;
    /* A file takes as long as it needs, but may be made to need hours. */
    attachment->deadline = (struct deadline){.at = UINT64_MAX, .interrupted = interrupt_flag()};
    wrong = check_core_program(file, attachment, request, fault);
    return wrong != FAULT_NONE ? wrong : restate(file, rc, fault);
}

void core_file_close(struct core_file *file)
{
    core_memory_free(&file->memory);
    core_close(&file->core);
    free(file->maps);
    util_close(&file->record.root);
    util_close(&file->record.program);
}

/* ---- the profile ---- */

static fault_code append_reading(struct reader *reader, struct memory *memory,
                                 struct capture *capture, struct reading *reading,
                                 struct fault *fault)
{
    const struct target *target = reader->source.target;
    fault_code rc = reader_read(reader, &capture->text, reading, fault);

    return rc == FAULT_NONE ? dump_complete(target, memory, &capture->text, fault) : rc;
}

fault_code core_file_read(const struct core_file *file, struct attachment *attachment,
                          struct capture *capture, struct fault *fault)
{
    struct reader_source source = attachment_source(attachment, &attachment->deadline);
    struct reader reader;
    fault_code rc;

    source.is_still = true;
    rc = reader_open(&reader, &source, fault);
    if (rc == FAULT_NONE)
        rc = append_reading(&reader, &attachment->memory, capture, &attachment->read.last, fault);
    reader_close(&reader);
    capture->bytes = capture->text.len;
    capture->taken = rc == FAULT_NONE;
    if (rc != FAULT_UNREADABLE)
        return rc;
    fault->code = count_lacking_files(&file->memory) ? FAULT_CORE_FILES : FAULT_CORE_LACKS;
    return fault->code;
}
