#include "jemalloc/dump.h"
#include "attach/target_paths.h"
#include "elf/image.h"
#include "jemalloc/faults.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * The file descriptor that the replaced open returns. No process can have it
 * (fs.nr_open is below 2^30), so if the tool dies while streaming, the target's
 * next write fails with EBADF and has no effect. Not a multiple of 4096.
 */
enum { STREAM_FD = 0x3fffffff, MAPS_FD = 0x3ffffffb };

/* The longest path that jemalloc opens to copy its mappings (prof_sys.c, prof_dump_maps). */
enum { MAPS_PATH_MAX = 64 };

struct dump_intercept {
    struct injection *injection;
    struct sink *sink;       /* NULL: the file is written by the target */
    remote_addr stream_path; /* address of the name that only our open uses */
    const char *asked_path;  /* NULL: jemalloc chooses the name */
    struct dump_after after;
    int64_t fd;   /* of the profile; -1: not open */
    bool opening; /* between entry and exit of the open */
    bool opened, closed;
    bool without_maps, maps_opened; /* the call does not read the mappings */
    int open_errno, write_errno;
    bool cut_short, overflow;
    uint64_t written;
    char path[DUMP_PATH_MAX];
    pid_t seen_by; /* as in struct dump_result */
};

/* Takes count bytes at addr into the sink; a hostile target may give any count. */
static int64_t take_write(struct dump_intercept *intercept, remote_addr addr, uint64_t count)
{
    unsigned char *space = sink_reserve(intercept->sink, count);

    if (!space) {
        intercept->overflow = true;
        return -ENOSPC;
    }
    if (!memory_read(intercept->injection->env.memory, addr, space, count)) {
        intercept->write_errno = errno;
        return -EFAULT;
    }
    intercept->sink->len += count;
    intercept->written += count;
    return (int64_t)count;
}

/*
 * Gives it an empty file instead of its mappings, with as few system calls as
 * possible: up to 5.2.1 a failing open would make the whole dump fail.
 */
static enum intercept_verdict maps_enter(struct dump_intercept *intercept, uint64_t nr,
                                         const uint64_t args[6], int64_t *result)
{
    char text[MAPS_PATH_MAX];
    remote_addr path;
    ssize_t len;

    if (intercept->maps_opened && args[0] == MAPS_FD && (arch_is_read(nr) || arch_is_close(nr))) {
        *result = 0;
        return INTERCEPT_STAND_IN;
    }
    if (intercept->maps_opened || !arch_opens_for_reading(nr, args, &path))
        return INTERCEPT_PASS;
    /* "/proc/4242/task/4242/maps", or "/proc/4242/maps" */
    len = memory_read_string(intercept->injection->env.memory, path, text, sizeof text);
    if (len <= 5 || strncmp(text, "/proc/", 6) != 0 || strcmp(text + len - 5, "/maps") != 0)
        return INTERCEPT_PASS;
    intercept->maps_opened = true;
    *result = MAPS_FD;
    return INTERCEPT_STAND_IN;
}

static enum intercept_verdict stream_enter(void *ctx, uint64_t nr, const uint64_t args[6],
                                           int64_t *result)
{
    struct dump_intercept *intercept = ctx;
    remote_addr path;

    if (!intercept->opened && arch_opens_for_writing(nr, args, &path) &&
        path == intercept->stream_path) {
        intercept->opened = true;
        *result = STREAM_FD;
        return INTERCEPT_STAND_IN;
    }
    if (!intercept->opened || intercept->closed)
        return INTERCEPT_PASS;
    if (intercept->without_maps && maps_enter(intercept, nr, args, result) == INTERCEPT_STAND_IN)
        return INTERCEPT_STAND_IN;
    if (args[0] != STREAM_FD)
        return INTERCEPT_PASS;
    if (arch_is_write(nr)) {
        *result = take_write(intercept, args[1], args[2]);
        return INTERCEPT_STAND_IN;
    }
    if (arch_is_close(nr)) {
        intercept->closed = true;
        *result = 0;
        return INTERCEPT_STAND_IN;
    }
    return INTERCEPT_PASS;
}

static void stream_leave(void *ctx, uint64_t nr, const uint64_t args[6], int64_t result)
{
    (void)ctx;
    (void)nr;
    (void)args;
    (void)result;
}

/* prof.dump creates one file; it also opens its maps, but only reads them. */
static enum intercept_verdict file_enter(void *ctx, uint64_t nr, const uint64_t args[6],
                                         int64_t *result)
{
    struct dump_intercept *intercept = ctx;
    remote_addr path;

    (void)result;
    if (!intercept->opened && !intercept->open_errno && arch_opens_for_writing(nr, args, &path)) {
        intercept->opening = true;
        if (memory_read_string(intercept->injection->env.memory, path, intercept->path,
                               sizeof intercept->path) < 0) /* longer than any path */
            snprintf(intercept->path, sizeof intercept->path, "%s",
                     intercept->asked_path ? intercept->asked_path : "");
    }
    return INTERCEPT_PASS;
}

/*
 * Takes the path from the file descriptor: the requested one may be relative or
 * contain links. Prefers a path that all threads find to one that only the
 * stopped thread finds.
 */
static void confirm_path(struct dump_intercept *intercept)
{
    const struct target *target = intercept->injection->env.target;
    const struct target view = target_seen_by(target, intercept->injection->session.tid);
    char real[DUMP_PATH_MAX];

    if (target_fd_path(target, &view, (int)intercept->fd, real, sizeof real) == 0) {
        memcpy(intercept->path, real, sizeof intercept->path);
        return;
    }
    if (target_fd_path(&view, &view, (int)intercept->fd, real, sizeof real) == 0 ||
        target_absolute_path(&view, intercept->path, real, sizeof real) == 0)
        memcpy(intercept->path, real, sizeof intercept->path);
    if (!target_sees_same_files(target, &view))
        intercept->seen_by = intercept->injection->session.tid;
}

static void file_leave(void *ctx, uint64_t nr, const uint64_t args[6], int64_t result)
{
    struct dump_intercept *intercept = ctx;

    if (intercept->opening) {
        intercept->opening = false;
        if (result < 0) {
            intercept->open_errno = (int)-result;
            return;
        }
        intercept->opened = true;
        intercept->fd = result;
        confirm_path(intercept);
    } else if (intercept->opened && !intercept->closed && (int64_t)args[0] == intercept->fd) {
        if (arch_is_close(nr))
            intercept->closed = true;
        else if (arch_is_write(nr) && result < 0)
            intercept->write_errno = (int)-result;
        else if (arch_is_write(nr)) {
            intercept->written += (uint64_t)result;
            intercept->cut_short |= (uint64_t)result < args[2];
        }
    }
}

/* Judges by the system calls, not only by the return code: up to 5.3.0 a short write is success. */
static fault_code judge_dump(const struct dump_intercept *intercept, const struct prof_state *state,
                             int rc, struct fault *fault)
{
    char path[sizeof intercept->path];

    if (intercept->open_errno) {
        /* A relative path without its directory does not tell where the target may not write. */
        if (target_absolute_path(intercept->injection->env.target, intercept->path, path,
                                 sizeof path))
            snprintf(path, sizeof path, "%s", intercept->path);
        return fault_set(fault, FAULT_DUMP_OPEN, intercept->open_errno, "prof.dump", "%s", path);
    }
    if (intercept->overflow)
        return sink_refuse(intercept->sink, "prof.dump", fault);
    if (intercept->write_errno || intercept->cut_short)
        return fault_set(fault, FAULT_DUMP_WRITE, intercept->write_errno, "prof.dump", "%s",
                         intercept->path);
    if (rc == EFAULT && !intercept->opened && !intercept->asked_path && !intercept->sink &&
        !state->prefix[0])
        return fault_set(fault, FAULT_DUMP_NAMELESS, 0, "prof.dump", "opt.prof_prefix");
    if (rc != 0)
        return fault_set(fault, FAULT_CTL_REFUSED, rc, "mallctl", "prof.dump");
    if (!intercept->opened || !intercept->closed || intercept->written == 0)
        return fault_set(fault, FAULT_INTERNAL, 0, "prof.dump",
                         "it reported success, but wrote no profile");
    return FAULT_NONE;
}

static fault_code run_intercepted(struct dump_intercept *intercept, const struct instance *instance,
                                  const struct prof_state *state, struct fault *fault)
{
    /*
     * The name is put at an odd address, so that its system call can be voided with any
     * page size. No such file exists, should the open ever be executed.
     */
    static const char stream_path[] = "\0/proc/self/jeattach-stream/none";
    struct injection *injection = intercept->injection;
    const char *path = intercept->asked_path;
    struct intercept calls = {.enter = intercept->sink ? stream_enter : file_enter,
                              .leave = intercept->sink ? stream_leave : file_leave,
                              .ctx = intercept};
    struct ctl_op ops[] = {
        {.name = "prof.dump", .type = CTL_STRING, .writes = true, .write_only = true},
        {.name = "prof.active",
         .type = CTL_BOOL,
         .writes = true,
         .new_value = intercept->after.active},
    };
    remote_addr at = 0;
    fault_code rc;

    if (intercept->sink) {
        at = injection_put(injection, stream_path, sizeof stream_path);
        ops[0].new_text = intercept->stream_path = at ? at + 1 : 0;
    } else if (path) {
        ops[0].new_text = injection_put(injection, path, strlen(path) + 1);
    }
    if ((intercept->sink || path) && !ops[0].new_text)
        return fault_set(fault, FAULT_DUMP_OPEN, ENAMETOOLONG, "prof.dump", "%s",
                         path ? path : "a stream");
    rc = ctl_run(injection, instance, ops, intercept->after.wanted ? 2 : 1, &calls, fault);
    return rc == FAULT_NONE ? judge_dump(intercept, state, ops[0].rc, fault) : rc;
}

static fault_code refuse_path(const struct target *target, const struct dump_request *request,
                              struct fault *fault)
{
    const char *path = request->path;
    struct stat st;

    if (target_stat(target, path, &st))
        return FAULT_NONE;
    if (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode))
        return fault_set(fault, FAULT_DUMP_UNSAFE, 0, "prof.dump",
                         "%s is a FIFO or socket: it would wait for a reader while it holds the "
                         "allocator's locks",
                         path);
    if (S_ISREG(st.st_mode) && !request->replace) /* prof_dump_open truncates it */
        return fault_set(fault, FAULT_DUMP_EXISTS, 0, "prof.dump", "%s", path);
    return FAULT_NONE;
}

fault_code dump_check(const struct target *target, const struct dump_request *request,
                      struct fault *fault)
{
    uint64_t limit = target_file_size_limit(target);

    if (request->stream)
        return FAULT_NONE;
    if (limit != UINT64_MAX)
        return fault_set(fault, FAULT_DUMP_UNSAFE, 0, "prof.dump",
                         "its file size limit is %llu bytes (RLIMIT_FSIZE): a larger profile would "
                         "kill it",
                         (unsigned long long)limit);
    return request->path ? refuse_path(target, request, fault) : FAULT_NONE;
}

/*
 * Adds a line "# build-id 55d0c8a01000 8f3a..." for each mapping of code in the maps at `from`:
 * by it a report later proves that a file is the one that was mapped. jeprof and pprof ignore lines
 * that are no mapping. The profile is complete without them.
 */
static void add_build_ids(struct memory *memory, struct sink *sink, size_t from)
{
    enum { ID_LINE_MAX = 64 + BUILD_ID_TEXT };
    struct build_id id = {.len = 0};
    struct modules modules;
    struct image image;
    char text[BUILD_ID_TEXT], *line = NULL;
    bool good = modules_parse(&modules, (const char *)sink->bytes + from, sink->len - from);

    /* A last line that was cut stays one. */
    good = good && sink->len && sink->bytes[sink->len - 1] == '\n';

    for (size_t i = 0, last = SIZE_MAX; good && i < modules.vma_count; i++) {
        const struct vma *vma = &modules.vmas[i];
        const size_t module = (size_t)vma->module;
        if (vma->module < 0 || !(vma->prot & MAP_EXEC) || !modules.list[module].inode)
            continue;
        if (module != last && !(image_open(&image, memory, modules.list[module].start) &&
                                image_build_id(&image, &id)))
            id.len = 0;
        last = module;
        if (!id.len || !(line = (char *)sink_reserve(sink, ID_LINE_MAX)))
            continue;
        sink->len += (size_t)snprintf(line, ID_LINE_MAX, "# build-id %llx %s\n",
                                      (unsigned long long)vma->start, build_id_text(&id, text));
    }
    modules_free(&modules);
}

fault_code dump_complete(const struct target *target, struct memory *memory, struct sink *sink,
                         struct fault *fault)
{
    static const char title[] = "\nMAPPED_LIBRARIES:\n";
    const size_t title_len = sizeof title - 1;
    const unsigned char *found;
    AUTO_FREE char *maps = NULL;
    size_t len, head;
    unsigned char *space;
    fault_code rc;

    /* The profile may end with it: then there is no need to search all of it. */
    if (sink->len >= title_len &&
        memcmp(sink->bytes + sink->len - title_len, title, title_len) == 0)
        found = sink->bytes + sink->len - title_len;
    else
        found = memmem(sink->bytes, sink->len, title, title_len);
    if (found && found + title_len < sink->bytes + sink->len) {
        if (memory)
            add_build_ids(memory, sink, (size_t)(found + title_len - sink->bytes));
        return FAULT_NONE;
    }
    rc = modules_read_maps(target, &maps, &len, fault);
    if (rc != FAULT_NONE)
        return rc;
    head = found ? 0 : title_len;
    space = sink_reserve(sink, head + len);
    if (!space)
        return sink_refuse(sink, "prof.dump", fault);
    memcpy(space, title, head);
    memcpy(space + head, maps, len);
    sink->len += head + len;
    if (memory)
        add_build_ids(memory, sink, sink->len - len);
    return FAULT_NONE;
}

/*
 * jemalloc calls a hook of the application after it has closed the file, with its
 * name, while it has the lock for dumps (5.3.0 prof_sys.c, prof_dump). The hook
 * runs in our call, and would look for a file that streaming never creates.
 * A dump frees memory only in the automatic arenas.
 */
static fault_code check_dump_hooks(struct injection *injection, const struct instance *instance,
                                   const struct prof_state *state, bool streamed,
                                   struct hooks_consent *consent, struct fault *fault)
{
    struct ctl_op op = {.name = "experimental.hooks.prof_dump", .type = CTL_POINTER};
    fault_code rc = FAULT_NONE;

    if (version_within(state->build.version, VERSION_NUMBER(5, 3, 0), 0))
        rc = ctl_run(injection, instance, &op, 1, NULL, fault);
    if (rc == FAULT_NONE && ctl_is_true(&op)) {
        if (streamed)
            return fault_set(fault, FAULT_DUMP_HOOK, 0, "prof.dump", "%#llx",
                             (unsigned long long)op.value);
        rc = hooks_judge(injection->env.modules, injection->env.plan,
                         "experimental.hooks.prof_dump is a function", op.value, consent, fault);
    }
    return rc == FAULT_NONE
               ? hooks_check(injection, instance, HOOKS_AUTOMATIC, consent, NULL, fault)
               : rc;
}

fault_code dump_streamable(struct injection *injection, const struct instance *instance,
                           const struct prof_state *state, struct hooks_consent *consent,
                           struct fault *fault)
{
    return check_dump_hooks(injection, instance, state, true, consent, fault);
}

fault_code dump_run(struct injection *injection, const struct instance *instance,
                    const struct dump_request *request, struct dump_result *result,
                    struct fault *fault)
{
    struct dump_intercept intercept = {
        .injection = injection,
        .sink = request->stream,
        .asked_path = request->path,
        .after = request->after,
        .fd = -1,
        /* a seccomp filter never sees a file opened (dump_complete) */
        .without_maps = injection->direct};
    struct prof_state state;
    fault_code rc = prof_read(injection, instance, &state, fault);

    memset(result, 0, sizeof *result);
    if (rc == FAULT_NONE)
        rc = build_can_profile(&state.build, fault);
    if (rc == FAULT_NONE)
        rc = check_dump_hooks(injection, instance, &state, request->stream != NULL,
                              request->consent, fault);
    /* For the stopped thread the path may name another file than for the process. */
    if (rc == FAULT_NONE && !request->stream && request->path) {
        const struct target *target = injection->env.target;
        const struct target view = target_seen_by(target, injection->session.tid);
        if (!target_sees_same_files(target, &view))
            rc = refuse_path(&view, request, fault);
    }
    if (rc == FAULT_NONE)
        rc = run_intercepted(&intercept, instance, &state, fault);
    if (rc != FAULT_NONE)
        return rc;
    result->bytes = intercept.written;
    result->seen_by = intercept.seen_by;
    if (!request->stream)
        snprintf(result->target_path, sizeof result->target_path, "%s", intercept.path);
    return FAULT_NONE;
}
