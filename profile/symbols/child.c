#include "profile/symbols/child.h"
#include "base/table.h"
#include "host/confined.h"
#include "host/passed_file.h"
#include "profile/names/short_name.h"
#include "profile/symbols/demangle.h"
#include "profile/symbols/libdw.h"
#include "profile/symbols/module_symbols.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* The tool receives 64 KiB at a time. */
enum { FLUSH_AT = 60 << 10, SAID_KEPT = 1 << 10 };

struct said_text {
    char text[NAME_MAX_SHOWN + 1];
    uint32_t hash, number; /* number 0: none */
};

struct child {
    const struct child_work *work;
    struct file_opener opener;
    struct module_symbols *modules;
    struct channel_buffer out, in;
    struct table seed; /* of hashes */
    struct said_text said[SAID_KEPT];
    uint32_t text_count;
};

/* The tool sees how the child ends, and does without what it was asked for. */
static _Noreturn void end_child(void)
{
    _exit(1);
}

/* ---- the channel ---- */

static void flush(struct child *child)
{
    for (size_t done = 0; done < child->out.len;) {
        ssize_t n =
            send(CONFINED_CHANNEL, child->out.bytes + done, child->out.len - done, MSG_NOSIGNAL);
        if (n <= 0)
            _exit(0); /* the tool has ended */
        done += (size_t)n;
    }
    child->out.len = 0;
}

static void say(struct child *child, enum channel_kind kind, const void *bytes, size_t len)
{
    if (!channel_add(&child->out, kind, bytes, len))
        end_child();
    if (child->out.len >= FLUSH_AT)
        flush(child);
}

/* Receives len bytes; *fd is the file that comes with them, if any. */
static void hear(void *bytes, size_t len, int *fd)
{
    for (size_t done = 0; done < len;) {
        int passed;
        ssize_t n =
            passed_file_receive(CONFINED_CHANNEL, (char *)bytes + done, len - done, 0, &passed);
        if (n <= 0)
            _exit(0);
        if (fd && passed >= 0)
            *fd = passed;
        done += (size_t)n;
    }
}

/* ---- texts ---- */

/*
 * Returns the number of a text; says it, unless it is one of those that were said last: names and
 * files repeat in the order of addresses.
 */
static uint32_t number_of_text(struct child *child, const char *text)
{
    char bounded[NAME_MAX_SHOWN + 1];
    struct said_text *said;
    uint64_t hash;
    size_t len;

    if (!text)
        return 0;
    text = bounded_name(text, bounded);
    len = strlen(text);
    hash = table_hash_bytes(&child->seed, text, len);
    said = &child->said[hash % SAID_KEPT];
    if (said->hash == (uint32_t)hash && said->number && strcmp(said->text, text) == 0)
        return said->number;
    memcpy(said->text, text, len + 1);
    said->hash = (uint32_t)hash;
    said->number = ++child->text_count;
    say(child, CHANNEL_TEXT, text, len);
    return said->number;
}

/* ---- files ---- */

static int ask_for_file(void *ctx, size_t module, const struct file_wanted *wanted)
{
    struct child *child = ctx;
    const struct channel_ask ask = {
        .module = (uint32_t)module,
        .what = wanted->what,
        .attempt = wanted->attempt,
        .dir_len = wanted->dir ? (uint32_t)strlen(wanted->dir) : 0,
        .name_len = wanted->name ? (uint32_t)strlen(wanted->name) : 0,
        .id_len = wanted->id ? (uint32_t)wanted->id->len : 0,
    };
    struct channel_head head;
    struct channel_file answer;
    int fd = -1;

    if (!channel_begin(&child->out, CHANNEL_ASK,
                       sizeof ask + ask.dir_len + ask.name_len + (size_t)ask.id_len) ||
        !channel_more(&child->out, &ask, sizeof ask) ||
        !channel_more(&child->out, wanted->dir, ask.dir_len) ||
        !channel_more(&child->out, wanted->name, ask.name_len) ||
        !channel_more(&child->out, wanted->id ? wanted->id->bytes : NULL, ask.id_len))
        end_child();
    flush(child);
    hear(&head, sizeof head, &fd);
    hear(&answer, sizeof answer, NULL);
    if (answer.err)
        return (int)-answer.err;
    return fd < 0 ? -EMFILE : fd;
}

/* ---- requests ---- */

static void answer_addresses(struct child *child)
{
    const struct channel_address *list = (const struct channel_address *)(void *)child->in.bytes;
    struct channel_state state = {.module = UINT32_MAX};

    for (size_t i = 0; i < child->in.len / sizeof *list; i++) {
        const struct symbol_line *lines = NULL;
        size_t count = 0;
        if (list[i].module < child->work->count &&
            child->work->modules[list[i].module].trust != SYMBOLS_TRUST_NONE) {
            struct module_symbols *module = &child->modules[list[i].module];
            count = module_symbols_lines(module, list[i].offset, &lines);
            if (module_symbols_lack_memory(module))
                end_child();
            /* Says what a module lacks, when that has changed. */
            const struct debug_missing missing = module_symbols_missing(module);
            const struct channel_state now = {
                .module = (uint32_t)module->number,
                .lack = module->lack,
                .split_missing = missing.count,
                .split_path = number_of_text(child, missing.path),
            };
            if (memcmp(&now, &state, sizeof now) != 0)
                say(child, CHANNEL_STATE, &now, sizeof now);
            state = now;
            objects_trim();
        }
        struct channel_line *said = reallocarray(NULL, count + 1, sizeof *said);
        if (!said)
            end_child();
        for (size_t j = 0; j < count; j++)
            said[j] = (struct channel_line){
                .function = number_of_text(child, lines[j].function),
                .linkage = number_of_text(child, lines[j].linkage),
                .file = number_of_text(child, lines[j].file),
                .line = lines[j].line,
                .start_line = lines[j].start_line,
            };
        say(child, CHANNEL_LINES, said, count * sizeof *said);
        free(said);
    }
}

void child_prepare(void *ctx)
{
    const struct child_work *work = ctx;
    struct libdw unused;

    for (size_t i = 0; i < work->count; i++)
        if (work->modules[i].lines) {
            (void)libdw_load(&unused); /* it cannot be opened later */
            return;
        }
}

void child_serve(void *ctx)
{
    static struct child child;
    const struct child_work *work = ctx;
    struct channel_head head;

    child.work = work;
    child.opener = (struct file_opener){ask_for_file, &child};
    child.modules = calloc(work->count + 1, sizeof *child.modules);
    if (!child.modules)
        end_child();
    for (size_t i = 0; i < work->count; i++) {
        child.modules[i].opener = &child.opener;
        child.modules[i].number = i;
        child.modules[i].lines =
            work->modules[i].lines && work->modules[i].trust == SYMBOLS_TRUST_ALL;
        child.modules[i].raw = work->modules[i].trust >= SYMBOLS_TRUST_RAW;
    }
    table_init(&child.seed);
    for (;;) {
        hear(&head, sizeof head, NULL);
        child.in.len = 0;
        free(child.in.bytes);
        child.in.bytes = malloc(head.len + 1);
        if (!child.in.bytes)
            end_child();
        child.in.len = head.len;
        hear(child.in.bytes, head.len, NULL);
        if (head.kind == CHANNEL_ADDRESSES) {
            answer_addresses(&child);
        } else {
            const char *at = (const char *)child.in.bytes, *end = at + child.in.len;
            for (const char *nul; at < end && (nul = memchr(at, 0, (size_t)(end - at)));
                 at = nul + 1) {
                struct arena arena = {.chunks = NULL};
                const char *name = demangle(&arena, at);
                uint32_t number = name && name != at ? number_of_text(&child, name) : 0;
                say(&child, CHANNEL_NAME, &number, sizeof number);
                arena_free(&arena);
            }
        }
        say(&child, CHANNEL_DONE, NULL, 0);
        flush(&child);
    }
}
