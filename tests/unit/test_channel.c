/* A confined child that somebody has taken over, against the tool that asks it for names. */
#include "base/interruptions.h"
#include "check.h"
#include "profile/symbols/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <malloc.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { MODULES = 2, AT_ONCE = 8192, MANY = 4 * AT_ONCE, LINES = 256, ASKS = 100000 };

static const struct channel_address addresses[MANY];

/* ---- in the child, in place of profile/symbols/child.c ---- */

static void (*attack)(void);
static struct channel_buffer out;

void child_prepare(void *ctx)
{
    (void)ctx;
}

void child_serve(void *ctx)
{
    (void)ctx;
    attack();
}

static void say(enum channel_kind kind, const void *bytes, size_t len)
{
    if (!channel_add(&out, kind, bytes, len))
        _exit(1);
}

static void flush(void)
{
    for (size_t done = 0; done < out.len;) {
        ssize_t n = send(CONFINED_CHANNEL, out.bytes + done, out.len - done, MSG_NOSIGNAL);
        if (n <= 0)
            _exit(0);
        done += (size_t)n;
    }
    out.len = 0;
}

static void sleep_on(void)
{
    static int word;

    for (;;)
        syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static void ask_and_not_read(void)
{
    const struct channel_ask ask = {.what = CHANNEL_MODULE};

    for (int i = 0; i < ASKS; i++) {
        say(CHANNEL_ASK, &ask, sizeof ask);
        flush();
    }
    sleep_on();
}

static void say_state(void)
{
    const struct channel_state state = {.lack = SYMBOLS_LACK_TABLE};

    say(CHANNEL_STATE, &state, sizeof state);
    flush();
    sleep_on();
}

static void ask_for_file(void)
{
    const struct channel_ask ask = {.what = CHANNEL_MODULE};

    say(CHANNEL_ASK, &ask, sizeof ask);
    flush();
    sleep_on();
}

static void say_empty_texts(void)
{
    for (;;) {
        say(CHANNEL_TEXT, "", 0);
        if (out.len >= 64 << 10)
            flush();
    }
}

static void take_question(void)
{
    static char question[sizeof(struct channel_head) + AT_ONCE * sizeof(struct channel_address)];

    for (size_t done = 0; done < sizeof question;) {
        ssize_t n = read(CONFINED_CHANNEL, question + done, sizeof question - done);
        if (n <= 0)
            _exit(0);
        done += (size_t)n;
    }
}

static void say_many_lines(void)
{
    static struct channel_line lines[LINES];

    for (size_t i = 0; i < LINES; i++)
        lines[i] = (struct channel_line){.function = 1, .linkage = 1};
    say(CHANNEL_TEXT, "f", 1);
    for (;;) {
        take_question();
        for (size_t i = 0; i < AT_ONCE; i++) {
            say(CHANNEL_LINES, lines, sizeof lines);
            flush();
        }
        say(CHANNEL_DONE, NULL, 0);
        flush();
    }
}

static void say_states(void)
{
    const struct channel_state state = {.lack = SYMBOLS_LACK_TABLE};

    for (;;) {
        say(CHANNEL_STATE, &state, sizeof state);
        flush();
    }
}

/* The second question does not fit beside the first one. */
static void answer_and_not_read(void)
{
    for (size_t i = 0; i < AT_ONCE; i++)
        say(CHANNEL_LINES, NULL, 0);
    say(CHANNEL_DONE, NULL, 0);
    flush();
    sleep_on();
}

static void answer_and_sleep(void)
{
    say(CHANNEL_LINES, NULL, 0);
    flush();
    sleep_on();
}

static void answer_sleepily(void)
{
    const struct timespec pause = {0, 400000000};
    static int word;

    for (int i = 0; i < 5; i++) {
        syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &pause, NULL, 0);
        say(CHANNEL_LINES, NULL, 0);
        flush();
    }
    for (;;)
        syscall(SYS_exit_group, 0);
}

static void answer_and_end(void)
{
    say(CHANNEL_LINES, NULL, 0);
    flush();
    for (;;) /* AddressSanitizer makes other calls before _exit(3) */
        syscall(SYS_exit_group, 0);
}

static void end_at_once(void)
{
    _exit(1);
}

/* ---- in the tool ---- */

static uint64_t bytes_of_lines, opened, states;
static pid_t *killed_by_answer; /* NULL: none */

static void take_lines(void *ctx, size_t number, const struct symbol_line *lines, size_t count)
{
    (void)ctx;
    (void)number;
    (void)lines;
    bytes_of_lines += count * sizeof *lines;
    if (killed_by_answer)
        kill(*killed_by_answer, SIGKILL);
}

static void take_state(void *ctx, const struct channel_state *state, const char *split_path)
{
    (void)ctx;
    (void)state;
    (void)split_path;
    states++;
}

static int open_wanted(void *ctx, size_t module, const struct file_wanted *wanted)
{
    (void)ctx;
    (void)module;
    (void)wanted;
    opened++;
    return -ENOENT;
}

static const struct reader_client client = {
    .lines = take_lines, .state = take_state, .opener = {open_wanted, NULL}};

struct scene {
    struct child_module modules[MODULES];
    struct arena arena;
    struct deadline deadline;
    struct reader reader;
};

static struct reader *begin(struct scene *scene, void (*by)(void))
{
    attack = by;
    *scene = (struct scene){.reader = {.modules = scene->modules,
                                       .module_count = MODULES,
                                       .client = &client,
                                       .arena = &scene->arena}};
    return &scene->reader;
}

static void end(struct scene *scene)
{
    reader_end(&scene->reader);
    arena_free(&scene->arena);
}

static enum reader_end lines_of(struct reader *reader)
{
    size_t answered = 0;

    return reader_lines(reader, addresses, MANY, &answered);
}

static void test_files(void)
{
    struct scene scene;

    CHECK(lines_of(begin(&scene, ask_and_not_read)) == READER_WRONG);
    CHECK(opened > 0 && opened < ASKS);
    end(&scene);
}

/* There is nobody to take it while a name is demangled. */
static void test_demangling(void)
{
    void (*const attacks[])(void) = {say_state, ask_for_file};

    for (size_t i = 0; i < ARRAY_LEN(attacks); i++) {
        struct scene scene;
        struct reader *reader = begin(&scene, attacks[i]);
        CHECK(strcmp(reader_demangle(reader, "_Z1fv"), "_Z1fv") == 0 && reader->deaths == 1);
        end(&scene);
    }
}

static void test_memory(void)
{
    struct scene scene;
    struct reader *reader = begin(&scene, say_empty_texts);

    CHECK(lines_of(reader) == READER_MEMORY);
    CHECK(reader->text_capacity * sizeof *reader->texts <= READER_BYTES_MAX);
    end(&scene);
    bytes_of_lines = 0;
    CHECK(lines_of(begin(&scene, say_many_lines)) == READER_MEMORY);
    CHECK(bytes_of_lines > 0 && bytes_of_lines <= READER_BYTES_MAX);
    end(&scene);
}

/* As by the kernel, at a limit that it shares. */
static void test_killed(void)
{
    struct scene scene;
    struct reader *reader = begin(&scene, answer_and_sleep);

    killed_by_answer = &reader->child.pid;
    CHECK(lines_of(reader) == READER_MEMORY);
    killed_by_answer = NULL;
    end(&scene);
}

static void test_sleep(void)
{
    const uint64_t second = 1000000000;
    struct scene scene;
    struct reader *reader = begin(&scene, sleep_on);

    CHECK(lines_of(reader) == READER_TIME && reader->wasted_ns >= 5 * second);
    reader->wasted_ns = 100 * second; /* others have slept as well */
    CHECK(lines_of(reader) == READER_TIME && reader->wasted_ns < 101 * second);
    CHECK(reader->wasted_ns > 100 * second);
    end(&scene);
    reader = begin(&scene, answer_sleepily);
    CHECK(lines_of(reader) == READER_CRASHED && reader->wasted_ns > second / 2);
    end(&scene);
}

static void test_busy(void)
{
    struct scene scene;

    CHECK(lines_of(begin(&scene, say_states)) == READER_TIME && states > 0);
    end(&scene);
}

static void test_full(void)
{
    struct scene scene;
    struct reader *reader = begin(&scene, answer_and_not_read);

    CHECK(lines_of(reader) == READER_TIME);
    end(&scene);
    reader = begin(&scene, answer_and_not_read);
    reader->deadline = &scene.deadline;
    scene.deadline.at = clock_now() + 500000000;
    CHECK(lines_of(reader) == READER_TIME); /* it has had its share */
    scene.deadline.at = clock_now();
    CHECK(lines_of(reader) == READER_INTERRUPTED);
    end(&scene);
}

static int open_own(void *ctx, const struct symbol_mapping *mapping)
{
    (void)ctx;
    (void)mapping;
    return open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
}

/* The module that it was about to read is blamed, and there is one. */
static void test_blame(void)
{
    static const struct symbol_mapping mapping = {.start = 0x1000, .end = 0x2000, .path = "/x"};
    static const struct symbols_options options = {.open = open_own};
    static const struct {
        void (*attack)(void);
        enum symbols_loss loss;
        enum symbols_trust trust;
    } ends[] = {
        {answer_and_end, SYMBOLS_LOSS_CRASHED, SYMBOLS_TRUST_TABLES},
        {end_at_once, SYMBOLS_LOSS_MEMORY, SYMBOLS_TRUST_NONE},
    };
    struct symbols_coverage coverage;

    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        struct symbols *symbols = symbols_new(&mapping, 1, &options);
        if (!CHECK(symbols))
            return;
        attack = ends[i].attack;
        symbols_ask(symbols, &mapping.start, 1);
        CHECK(symbols_coverage(symbols, 0, &coverage) && coverage.loss == ends[i].loss &&
              coverage.trust == ends[i].trust);
        symbols_free(symbols);
    }
}

/* Each in a process of its own, at the same time, as some take seconds. */
int main(void)
{
    static void (*const tests[])(void) = {test_files,  test_demangling, test_memory, test_blame,
                                          test_killed, test_sleep,      test_busy,   test_full};
    pid_t pids[ARRAY_LEN(tests)];
    int status;

    mallopt(M_PERTURB, 0xa5); /* memory that nobody has written is not zero */
    for (size_t i = 0; i < ARRAY_LEN(tests); i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            tests[i]();
            _exit(check_result());
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(tests); i++)
        CHECK(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
    return check_result();
}
