/* jeattach report */
#include "base/text.h"
#include "base/util.h"
#include "cli/faults.h"
#include "cli/message.h"
#include "cli/notes.h"
#include "cli/presentation.h"
#include "cli/verbs/verbs.h"
#include "cli/words.h"
#include "elf/image.h"
#include "elf/modulefile.h"
#include "profile/faults.h"
#include "profile/heap_kind.h"
#include "profile/heap_unpack.h"
#include "run/interrupt.h"
#include "run/stall_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { READ_SIZE = 1 << 20, INPUTS_MAX = 2 + 2 * OPTIONS_BETWEEN_MAX };
/* Of the text of each input; less where the host has less than twice that left. */
#define PROFILE_LIMIT ((size_t)2 << 30)

struct input {
    struct sink text;
    uint64_t time_ns;
};

static fault_code set_input_fault(struct fault *fault, int err, const char *path)
{
    return fault_set(fault, FAULT_PROFILE, err, "read profile", "%s", path);
}

/*
 * A text ends at the first NUL: what follows are pages that were lost with the power, the hole of
 * a sparse file, or /dev/zero. The NUL stays, as an incomplete line. Of what is no profile the
 * beginning is read, which tells what it is; of what is compressed, all.
 */
static fault_code read_all(struct input *input, int fd, const char *path, struct fault *fault)
{
    struct sink *text = &input->text;
    bool begun = false;

    for (;;) {
        unsigned char *room = sink_reserve(text, READ_SIZE), *end = NULL;
        ssize_t n;
        if (!room)
            return sink_refuse(text, "read profile", fault);
        do
            n = read(fd, room, READ_SIZE);
        while (n < 0 && errno == EINTR && !*interrupt_flag());
        if (n < 0 && errno == EINTR)
            return fault_set(fault, FAULT_INTERRUPTED, EINTR, "read profile", "%s", path);
        if (n < 0)
            return set_input_fault(fault, errno, path);
        text->len += (size_t)n;
        if (n && heap_packing(text->bytes, text->len) != HEAP_PLAIN)
            continue;
        begun = begun || heap_start((const char *)text->bytes, text->len) != SIZE_MAX;
        if (begun)
            end = memchr(room, 0, (size_t)n);
        if (end)
            text->len = (size_t)(end - text->bytes) + 1;
        if (n == 0 || end || (!begun && text->len >= HEAP_SEARCH_MAX))
            return FAULT_NONE;
    }
}

/* Reads what a compressed file contains, in its place. */
static fault_code unpack(struct input *input, const char *path, struct fault *fault)
{
    static const char *const names[] = {[HEAP_GZIP] = "gzip", [HEAP_ZSTD] = "zstd"};
    static const int reasons[] = {[HEAP_GZIP] = PROFILE_GZIP, [HEAP_ZSTD] = PROFILE_ZSTD};
    struct sink *text = &input->text;
    const enum heap_packing packing = heap_packing(text->bytes, text->len);
    AUTO_CLOSE int fd = heap_unpack(text->bytes, text->len, text->limit / 2); /* both copies */
    fault_code rc;

    if (fd == -EINTR)
        return fault_set(fault, FAULT_INTERRUPTED, EINTR, "read profile", "%s", path);
    if (fd == -EFBIG)
        return sink_refuse(text, "read profile", fault);
    text->len = 0;
    rc = fd < 0 ? FAULT_PROFILE : read_all(input, fd, path, fault);
    if (fd >= 0 && (rc != FAULT_NONE || heap_packing(text->bytes, text->len) == HEAP_PLAIN))
        return rc;
    fault_set(fault, FAULT_PROFILE, 0, "read profile", "it is compressed%s (%s)%s",
              fd < 0 ? "" : " twice", names[packing],
              fd >= 0          ? ""
              : fd == -EBADMSG ? ", and damaged"
                               : ", and cannot be unpacked here");
    fault_set_reason(fault, fd == -EBADMSG ? PROFILE_NONE : reasons[packing]);
    return FAULT_PROFILE;
}

/*
 * A path that `dump` prints for a container, "/proc/PID/root/FILE", also shows
 * where the binaries are: returns "/proc/PID/root". NULL for other paths.
 */
static const char *root_of_file(const char *file, char *out, size_t size)
{
    int pid, end = 0;

    if (sscanf(file, "/proc/%d/root%n", &pid, &end) != 1 || !end || file[end] != '/')
        return NULL;
    snprintf(out, size, "%.*s", end, file);
    return out;
}

/* Opens a path, or stdin for "-". Below the root of a process, the process controls the path. Or
 * -errno. */
static int open_input(const char *path)
{
    char name[48];
    const char *root = root_of_file(path, name, sizeof name);
    int fd;

    if (root) {
        AUTO_CLOSE int below = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
        return below < 0 ? -errno : root_open_file(below, path + strlen(root), INROOT_FOLLOW);
    }
    fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    return fd < 0 ? -errno : fd;
}

static fault_code read_input(struct input *input, const char *path, struct fault *fault)
{
    AUTO_CLOSE int fd = open_input(path);
    size_t limit = PROFILE_LIMIT;
    struct procfs proc;
    struct stat st;

    if (procfs_open(&proc, "/proc") == 0)
        limit = sink_affordable(&proc, PROFILE_LIMIT);
    procfs_close(&proc);
    sink_init(&input->text, limit);
    if (fd == -EINTR)
        return fault_set(fault, FAULT_INTERRUPTED, EINTR, "read profile", "%s", path);
    if (fd < 0)
        return set_input_fault(fault, -fd, path);
    if (fstat(fd, &st))
        return set_input_fault(fault, errno, path);
    if (S_ISREG(st.st_mode))
        input->time_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
    fault_code rc = read_all(input, fd, path, fault);
    return rc == FAULT_NONE && heap_packing(input->text.bytes, input->text.len) != HEAP_PLAIN
               ? unpack(input, path, fault)
               : rc;
}

/*
 * The process of "/proc/PID/root/FILE" may have written FILE; another one in its
 * container has another pid in the file's name, and other code at its addresses.
 */
static int open_map_of_process(const char *file)
{
    struct procfs proc;
    struct target target;
    char part[24]; /* of the name that jemalloc gives to a profile: PREFIX.PID.N.mN.heap */
    int pid, fd = procfs_open(&proc, "/proc");
    const struct symbols_target live = {.target = &target};

    if (fd < 0)
        return fd;
    fd = -ENOENT;
    if (sscanf(file, "/proc/%d/root/", &pid) == 1 &&
        target_open(&target, &proc, pid, NULL) == FAULT_NONE) {
        snprintf(part, sizeof part, ".%d.", (int)target_ns_pid(&target));
        if (strstr(text_base_name(file), part))
            fd = symbols_open_map_in_target((void *)&live);
        target_close(&target);
    }
    procfs_close(&proc);
    return fd;
}

/* A regular file, or -errno. A pipe is not opened: its writer would take us for its reader. */
static int open_named(const char *path)
{
    AUTO_CLOSE int fd = -1;
    struct stat st;

    if (stat(path, &st) ||
        (S_ISREG(st.st_mode) &&
         ((fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)) < 0 || fstat(fd, &st))))
        return -errno;
    return S_ISREG(st.st_mode) ? steal_fd(&fd) : -EINVAL;
}

static bool check_named(const char *option, const char *path)
{
    char clean[256];
    AUTO_CLOSE int fd = path ? open_named(path) : -1;

    if (path && fd < 0)
        message("%s %s: %s", option, message_clean(path, clean, sizeof clean),
                fd == -EINVAL ? "not a regular file" : strerror(-fd));
    return !path || fd >= 0;
}

static int open_report_map(void *ctx)
{
    const struct options *options = ctx;

    return options->report.perf_map ? open_named(options->report.perf_map)
                                    : open_map_of_process(options->file);
}

/* ---- the profile ---- */

static void set_title(struct presentation *presentation, const struct options *options)
{
    const char *file = text_base_name(options->file);
    char *title = presentation->title;
    const size_t size = sizeof presentation->title;

    if (options->base)
        snprintf(title, size, "%s, compared with %s", file, text_base_name(options->base));
    else if (options->more_count)
        snprintf(title, size, "sum of %zu profiles: %s%s%s", options->more_count + 1, file,
                 options->more_count > 1 ? " to " : " and ",
                 text_base_name(options->more[options->more_count - 1]));
    else
        snprintf(title, size, "%s", file);
}

static bool check_several(const struct options *options)
{
    if (options->base && options->more_count)
        message("several profiles are added up: --base compares only one");
    return !options->base || !options->more_count;
}

/* jeprof's words: the program before its profile. */
static void take_program(struct options *options)
{
    AUTO_CLOSE int fd = options->more_count ? open_named(options->file) : -1;
    char magic[SELFMAG];

    if (options->program || fd < 0 || !file_read(fd, 0, magic, sizeof magic) ||
        memcmp(magic, ELFMAG, SELFMAG) != 0)
        return;
    options->program = options->file;
    options->file = options->more[0];
    memmove(options->more, options->more + 1, --options->more_count * sizeof *options->more);
}

static fault_code perform_report(struct presentation *presentation, const struct options *options,
                                 struct input *inputs, struct output *output, struct fault *fault)
{
    char root[48];
    const struct symbols_options symbols = {
        .root = options->report.root ? options->report.root
                                     : root_of_file(options->file, root, sizeof root),
        .no_inlines = options->report.no_inlines,
        .debuginfod = options->report.debuginfod,
        .open_map = open_report_map,
        .program = options->program,
        .ctx = (void *)options};
    struct present_source sources[INPUTS_MAX] = {{0}};
    struct presented presented;
    const char *paths[INPUTS_MAX] = {options->file, options->base};
    size_t count = 0;
    fault_code rc = read_input(&inputs[count++], options->file, fault);

    if (rc == FAULT_NONE && options->base)
        rc = read_input(&inputs[count++], options->base, fault);
    for (size_t i = 0; rc == FAULT_NONE && i < options->between_count; i++) {
        paths[count] = options->between[i];
        rc = read_input(&inputs[count++], options->between[i], fault);
    }
    const size_t adds = count;
    for (size_t i = 0; rc == FAULT_NONE && i < options->more_count; i++) {
        paths[count] = options->more[i];
        rc = read_input(&inputs[count++], options->more[i], fault);
    }
    if (rc == FAULT_NONE)
        rc = output_open_named(output, options->output, options->force, options->mode, fault);
    if (rc != FAULT_NONE)
        return rc;
    for (size_t i = 0; i < count; i++)
        sources[i] = (struct present_source){.text = &inputs[i].text,
                                             .time_ns = inputs[i].time_ns,
                                             .name = paths[i],
                                             .adds = i >= adds};
    set_title(presentation, options);
    presentation->display.time_ns = sources[0].time_ns;
    rc = present_read(&presented, presentation, &symbols, sources, count, fault);
    return present_end(&presented, rc, output, fault);
}

/* The order of the rows. */
static bool set_sort(struct presentation *presentation, const char *word)
{
    static const char *const words[] = {[SORT_FLAT] = "flat", [SORT_CUM] = "cum"};

    presentation->display.sort = SORT_FLAT;
    if (word && !words_choose("order", word, words, ARRAY_LEN(words), &presentation->display.sort))
        return false;
    if (!word || presentation->format == FORMAT_TEXT || presentation->format == FORMAT_JSON)
        return true;
    message("--sort works only with the formats text and json: choose one with -f");
    return false;
}

/* Called by the stall guard: a binary, or the profile, is on a file system that does not answer. */
static int tell_stalled(void *ctx, const struct fault *fault)
{
    return message_fault(ctx, fault);
}

static int report_main(const struct options *given, pid_t pid)
{
    struct options with_program = *given;
    const struct options *options = &with_program;
    struct presentation presentation;
    struct input inputs[INPUTS_MAX] = {0};
    struct output output = {.fd = -1};
    struct subject subject = {
        .name = options->file, .verb = "show the profile", .json = options->json};
    const struct run_events events = {.ctx = (void *)options, .note = notes_print_profile};
    const struct stall_guard_case stall = {.stalled = tell_stalled, .ctx = &subject};
    struct stall_guard stall_guard;
    struct fault fault;
    int code = EXIT_USAGE;

    (void)pid;
    stall_guard_start(&stall_guard, STALL_GUARD_NO_DEADLINE, &stall);
    take_program(&with_program);
    subject.name = options->file;
    if (presentation_init(&presentation, options, FORMAT_TEXT) && check_several(options) &&
        set_sort(&presentation, options->report.sort) &&
        check_named("--perf-map", options->report.perf_map) &&
        check_named("--exe", options->program)) {
        presentation.events = &events;
        code = EXIT_DONE;
        if (perform_report(&presentation, options, inputs, &output, &fault) != FAULT_NONE)
            code = message_fault(&subject, &fault);
    }
    output_close(&output);
    stall_guard_stop(&stall_guard);
    for (size_t i = 0; i < INPUTS_MAX; i++)
        sink_free(&inputs[i].text);
    presentation_free(&presentation);
    return code;
}

const struct verb verb_report = {
    .name = "report",
    .summary = "show a profile from a file as a table, flame graph, pprof, ...",
    .synopses = {"[options] FILE...", "[options] PROGRAM FILE..."},
    .examples = {{"jeattach report now.heap", "the largest stacks"},
                 {"jeattach report now.heap --base before.heap", "what has grown"},
                 {"jeattach report now.heap --focus parse -o parse.html", "some stacks"}},
    .takes = TAKES_OUTPUT | TAKES_FORMAT | TAKES_FILE,
    .intro = "Shows a heap profile in jemalloc's own format, from any machine; - is stdin. The\n"
             "numbers are estimates of the memory in use, computed from the samples as jeprof\n"
             "and pprof do. No process is needed, but the binaries that it had mapped are;\n"
             "the first line says which are not the same any more. Takes gzip and zstd, too,\n"
             "and names that the file has (.symbolized). Several files of one program are\n"
             "added up.\n",
    .options =
        {
            {"format", NULL,
             "text        the largest stacks and functions (default)\n"
             "tree        the stacks as a tree of calls (.tree)\n"
             "flame       flame graph, one HTML file without external\n"
             "            references (.html)\n"
             "pprof       for go tool pprof (.pb.gz)\n"
             "folded      one stack a line, for other flame graphs\n"
             "            (.folded)\n"
             "dot, svg    call graph; svg is drawn by Graphviz' dot\n"
             "json        the functions and the largest stacks\n"
             "raw         as jemalloc wrote it (.heap)\n"
             "symbolized  the same with names, for jeprof (.symbolized)\n"
             "Default: from the extension of the output file. An\n"
             "extension also names its format: -f html"},
            {"sort", "BY",
             "flat: by what a function allocates itself (default);\n"
             "cum: including all that it calls"},
            {"json", NULL, "the same as -f json; an error is {\"error\": {...}}"},
            {"quiet", NULL, "suppress messages about missing symbols"},
        },
    .run = report_main,
};
