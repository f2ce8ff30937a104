#include "profile/symbols/reader.h"
#include "base/interruptions.h"
#include "base/list.h"
#include "host/passed_file.h"
#include "profile/names/short_name.h"
#include "profile/symbols/demangle.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define CHILD_MEMORY (320ull << 20) /* bytes: more than an honest program of any size needs */
#define RESIDENT_MAX (416ull << 20) /* bytes, those of files included */

#define ANSWER_NS (5000ull * 1000000)  /* CPU time for one answer, or none for as long */
#define HALVED_NS (10000ull * 1000000) /* wasted time after which an answer gets half */
#define SWIFT_NS  (50ull * 1000000)    /* CPU time of an answer that wastes nothing */

enum {
    LOOK_MS = 20,
    HALVINGS_MAX = 5, /* down to 156 ms: a large unit of an honest program takes less */
    TEXT_COST = 32,   /* bytes that a text needs besides its own */
    ASKS_MAX = 1 << 21,
    LINES_PER_ANSWER = 256,
    ADDRESSES_AT_ONCE = 8 << 10,
    DEATHS_MAX = 4, /* while names are demangled; then none is any more */
    RECEIVE = 64 << 10,
};

static enum reader_end start(struct reader *reader)
{
    struct child_work work = {reader->modules, reader->module_count};
    const struct confined_work confined = {
        .memory = CHILD_MEMORY,
        .out = -1,
        .prepare = child_prepare,
        .serve = child_serve,
        .ctx = &work,
    };

    if (reader->child.pid > 0)
        return READER_DONE;
    reader->in.len = 0;
    reader->text_count = 0;
    return confined_start(&reader->child, &confined) == 0 ? READER_DONE : READER_NONE;
}

void reader_end(struct reader *reader)
{
    (void)confined_stop(&reader->child);
    channel_free(&reader->in);
    free(reader->texts);
    reader->texts = NULL;
    reader->text_count = reader->text_capacity = 0;
}

/* ---- what the child says ---- */

/* True if the number of a text is valid; *text is then that text, or NULL. */
static bool text_of(const struct reader *reader, uint64_t number, const char **text)
{
    *text = number && number <= reader->text_count ? reader->texts[number - 1] : NULL;
    return number <= reader->text_count;
}

static bool charge(struct reader *reader, size_t bytes)
{
    reader->bytes += bytes;
    return reader->bytes <= READER_BYTES_MAX;
}

static bool hear_lines(struct exchange *exchange, const void *bytes, size_t len)
{
    struct symbol_line lines[LINES_PER_ANSWER];
    struct reader *reader = exchange->reader;
    const size_t count = len / sizeof(struct channel_line);

    if (exchange->asked != CHANNEL_ADDRESSES || *exchange->answered >= exchange->count ||
        count > LINES_PER_ANSWER || len % sizeof(struct channel_line) ||
        !charge(reader, count * sizeof *lines))
        return false;
    for (size_t i = 0; i < count; i++) {
        struct channel_line line;
        memcpy(&line, (const char *)bytes + i * sizeof line, sizeof line);
        lines[i] = (struct symbol_line){.line = line.line, .start_line = line.start_line};
        if (!text_of(reader, line.function, &lines[i].function) || !lines[i].function ||
            !text_of(reader, line.linkage, &lines[i].linkage) || !lines[i].linkage ||
            !text_of(reader, line.file, &lines[i].file))
            return false;
    }
    reader->client->lines(reader->client->ctx, (*exchange->answered)++, lines, count);
    return true;
}

static bool hear_name(struct exchange *exchange, const void *bytes, size_t len)
{
    const struct reader *reader = exchange->reader;
    const char *name;
    uint32_t number;

    if (exchange->asked != CHANNEL_NAMES || *exchange->answered >= exchange->count ||
        len != sizeof number)
        return false;
    memcpy(&number, bytes, sizeof number);
    if (!text_of(reader, number, &name))
        return false;
    reader->client->name(reader->client->ctx, (*exchange->answered)++, name);
    return true;
}

static bool hear_state(const struct exchange *exchange, const void *bytes, size_t len)
{
    const struct reader *reader = exchange->reader;
    struct channel_state state;
    const char *path;

    if (exchange->asked != CHANNEL_ADDRESSES || len != sizeof state)
        return false;
    memcpy(&state, bytes, sizeof state);
    if (state.module >= reader->module_count || state.lack > SYMBOLS_LACK_LIBRARY ||
        !text_of(reader, state.split_path, &path))
        return false;
    reader->client->state(reader->client->ctx, &state, path);
    return true;
}

/* ---- files for the child ---- */

/* Takes the next text of an ask; an empty one is NULL. False: out of memory, or it has a NUL. */
static bool copy_part(const char **at, size_t len, char **text)
{
    *text = len ? strndup(*at, len) : NULL;
    *at += len;
    return !len || (*text && strlen(*text) == len);
}

static bool hear_ask(const struct exchange *exchange, const void *bytes, size_t len)
{
    struct reader *reader = exchange->reader;
    AUTO_FREE char *dir = NULL, *name = NULL;
    const char *at = (const char *)bytes + sizeof(struct channel_ask);
    struct build_id id = {.len = 0};
    struct channel_ask ask;

    if (exchange->asked != CHANNEL_ADDRESSES || len < sizeof ask || reader->asks++ > ASKS_MAX)
        return false;
    memcpy(&ask, bytes, sizeof ask);
    len -= sizeof ask;
    if (ask.module >= reader->module_count || ask.what > CHANNEL_SPLIT ||
        ask.id_len > BUILD_ID_MAX || len != (uint64_t)ask.dir_len + ask.name_len + ask.id_len ||
        !copy_part(&at, ask.dir_len, &dir) || !copy_part(&at, ask.name_len, &name))
        return false;
    id.len = ask.id_len;
    memcpy(id.bytes, at, id.len);
    const struct file_wanted wanted = {(enum channel_file_kind)ask.what, dir, name, &id,
                                       ask.attempt};
    AUTO_CLOSE int fd =
        reader->client->opener.open(reader->client->opener.ctx, ask.module, &wanted);
    /* The child waits for it, with nothing else to take: the channel has space. */
    struct {
        struct channel_head head;
        struct channel_file file;
    } answer = {{CHANNEL_FILE, sizeof answer.file}, {fd < 0 ? -fd : 0}};
    struct iovec piece = {&answer, sizeof answer};
    return passed_file_send(reader->child.channel, &piece, 1, fd, MSG_DONTWAIT) == sizeof answer;
}

/* ---- an exchange ---- */

static bool hear_record(struct exchange *exchange, const struct channel_head *head,
                        const void *bytes)
{
    struct reader *reader = exchange->reader;

    switch (head->kind) {
    case CHANNEL_TEXT:
        if (head->len > NAME_MAX_SHOWN || memchr(bytes, 0, head->len) ||
            !charge(reader, head->len + TEXT_COST) ||
            !LIST_GROW(reader->texts, reader->text_capacity, reader->text_count))
            return false;
        reader->texts[reader->text_count] = arena_string(reader->arena, bytes, head->len);
        return reader->texts[reader->text_count++] != NULL;
    case CHANNEL_LINES:
        return hear_lines(exchange, bytes, head->len);
    case CHANNEL_NAME:
        return hear_name(exchange, bytes, head->len);
    case CHANNEL_STATE:
        return hear_state(exchange, bytes, head->len);
    case CHANNEL_ASK:
        return hear_ask(exchange, bytes, head->len);
    case CHANNEL_DONE:
        exchange->done = *exchange->answered == exchange->count && head->len == 0;
        return exchange->done;
    default:
        return false;
    }
}

bool reader_hear(struct exchange *exchange, const void *bytes, size_t len)
{
    struct channel_buffer *in = &exchange->reader->in;
    struct channel_head head;
    size_t at = 0;

    if (!channel_more(in, bytes, len))
        return false;
    while (!exchange->done && in->len - at >= sizeof head) {
        memcpy(&head, in->bytes + at, sizeof head);
        if (head.len > CHANNEL_MAX)
            return false;
        if (in->len - at - sizeof head < head.len)
            break;
        if (!hear_record(exchange, &head, in->bytes + at + sizeof head))
            return false;
        at += sizeof head + head.len;
    }
    in->len -= at;
    memmove(in->bytes, in->bytes + at, in->len);
    return true;
}

/* CPU time of the child, and of the tool, which the child may keep busy. */
static uint64_t time_used(const struct reader *reader)
{
    struct timespec own;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own);
    return confined_cpu_ns(&reader->child) + (uint64_t)own.tv_sec * 1000000000u +
           (uint64_t)own.tv_nsec;
}

/* Returns the CPU time since the last answer that was seen, and counts what was wasted. */
static uint64_t charge_answers(struct exchange *exchange)
{
    struct reader *reader = exchange->reader;
    const uint64_t now = time_used(reader);
    const uint64_t used = now > exchange->cpu_ns ? now - exchange->cpu_ns : 0;
    const uint64_t both = used + reader->child.slept_ns - exchange->slept_ns;
    const uint64_t swift = (*exchange->answered - exchange->seen) * SWIFT_NS;

    if (!swift && !exchange->done)
        return used;
    reader->wasted_ns += both > swift ? both - swift : 0;
    exchange->seen = *exchange->answered;
    exchange->cpu_ns = now;
    exchange->slept_ns = reader->child.slept_ns;
    exchange->seen_at = clock_now();
    return 0;
}

/*
 * An answer may take the less CPU time, or sleep, the more of both was wasted on others, so that
 * many bad files cost hardly more than some; and no more than a fifth of the time that is left
 * until the deadline, so that the good ones have their turn.
 */
static bool takes_too_long(struct exchange *exchange)
{
    struct reader *reader = exchange->reader;
    const uint64_t halvings = reader->wasted_ns / HALVED_NS;
    const uint64_t most = ANSWER_NS >> (halvings < HALVINGS_MAX ? halvings : HALVINGS_MAX);
    const uint64_t end = reader->deadline ? reader->deadline->at : UINT64_MAX;
    const uint64_t used = charge_answers(exchange), now = clock_now();

    return used > most || now >= end || now - exchange->seen_at > (end - now) / 4 ||
           confined_idles(&reader->child) >= most;
}

/* Returns why the child has to be ended, or READER_DONE: it may go on. */
static enum reader_end look_at_child(struct exchange *exchange)
{
    const struct reader *reader = exchange->reader;
    const uint64_t now = clock_now();

    if ((reader->deadline && deadline_passed(reader->deadline)) ||
        interruptions_ended(reader->interrupted))
        return READER_INTERRUPTED;
    if (now < exchange->look_at)
        return READER_DONE;
    exchange->look_at = now + LOOK_MS * 1000000ull;
    if (takes_too_long(exchange))
        return READER_TIME;
    return confined_resident(&reader->child) > RESIDENT_MAX ? READER_MEMORY : READER_DONE;
}

/* If the child has ended, receive will see that. */
static enum reader_end send_whole(struct exchange *exchange, const void *bytes, size_t len)
{
    struct pollfd channel = {.fd = exchange->reader->child.channel, .events = POLLOUT};
    enum reader_end end = READER_DONE;

    for (size_t done = 0; end == READER_DONE && done < len;) {
        const ssize_t n =
            send(channel.fd, (const char *)bytes + done, len - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            break;
        if (n < 0) {
            (void)poll(&channel, 1, LOOK_MS);
            end = look_at_child(exchange);
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return end;
}

/* Receives until all is answered. READER_DONE with exchange->done false: the child has ended. */
static enum reader_end receive(struct exchange *exchange)
{
    struct reader *reader = exchange->reader;
    struct pollfd channel = {.fd = reader->child.channel, .events = POLLIN};
    unsigned char bytes[RECEIVE];

    while (!exchange->done) {
        const int ready = poll(&channel, 1, LOOK_MS);
        const enum reader_end end = look_at_child(exchange);
        if (end != READER_DONE)
            return end;
        if (ready <= 0)
            continue;
        ssize_t n = recv(reader->child.channel, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            return READER_DONE;
        if (!reader_hear(exchange, bytes, (size_t)n))
            return reader->bytes > READER_BYTES_MAX ? READER_MEMORY : READER_WRONG;
    }
    return READER_DONE;
}

static enum reader_end ask_child(struct exchange *exchange, const void *bytes, size_t len)
{
    struct reader *reader = exchange->reader;
    const struct channel_head head = {exchange->asked, (uint32_t)len};
    enum reader_end end = reader->bytes > READER_BYTES_MAX ? READER_MEMORY : start(reader);
    enum confined_end ended;

    if (end != READER_DONE)
        return end;
    reader->interrupted = interruptions();
    exchange->cpu_ns = time_used(reader);
    exchange->slept_ns = reader->child.slept_ns;
    exchange->seen = *exchange->answered;
    exchange->seen_at = clock_now();
    exchange->look_at = clock_now() + LOOK_MS * 1000000ull;
    end = send_whole(exchange, &head, sizeof head);
    if (end == READER_DONE)
        end = send_whole(exchange, bytes, len);
    if (end == READER_DONE)
        end = receive(exchange);
    reader->wasted_ns += charge_answers(exchange);
    reader->wasted_ns += reader->child.slept_ns - exchange->slept_ns;
    if (exchange->done && reader->in.len == 0)
        return READER_DONE;
    ended = confined_stop(&reader->child);
    if (exchange->done || end != READER_DONE)
        return exchange->done ? READER_WRONG : end;
    switch (ended) {
    case CONFINED_REFUSED:
        return READER_NONE;
    case CONFINED_MEMORY:
    case CONFINED_KILLED:
        return READER_MEMORY;
    default:
        return READER_CRASHED;
    }
}

enum reader_end reader_lines(struct reader *reader, const struct channel_address *list,
                             size_t count, size_t *answered)
{
    enum reader_end end = READER_DONE;

    while (end == READER_DONE && *answered < count) {
        const size_t left = count - *answered;
        const size_t n = left < ADDRESSES_AT_ONCE ? left : ADDRESSES_AT_ONCE;
        struct exchange exchange = {.reader = reader,
                                    .asked = CHANNEL_ADDRESSES,
                                    .count = *answered + n,
                                    .answered = answered};
        end = ask_child(&exchange, list + *answered, n * sizeof *list);
    }
    return end;
}

static void take_demangled(void *ctx, size_t number, const char *name)
{
    const char **found = ctx;

    (void)number;
    if (name)
        *found = name;
}

const char *reader_demangle(struct reader *reader, const char *name)
{
    const char *found = name;
    const struct reader_client client = {.name = take_demangled, .ctx = &found};
    size_t answered = 0;
    struct exchange exchange = {
        .reader = reader, .asked = CHANNEL_NAMES, .count = 1, .answered = &answered};

    if (!demangle_may(name) || reader->deaths >= DEATHS_MAX)
        return name;
    reader->client = &client;
    if (ask_child(&exchange, name, strlen(name) + 1) != READER_DONE)
        reader->deaths++;
    reader->client = NULL;
    return found;
}
