/* Worker processes: items that hang, crash, lie, and those beside them. */
#include "base/util.h"
#include "check.h"
#include "host/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>

enum {
    ITEMS = 200,
    HANGS = 3,
    HANGS_TOO = 4,
    CRASHES = 10,
    SENDS_WRONG = 20,
    SENDS_TOO_MUCH = 30,
    ENDS = 40,
    SENDS_FILE = 50,
    FORKS = 60,
    SHARES = 1000,
};

static struct {
    int received[ITEMS];
    char bytes[16]; /* of the descriptor that was received */
    size_t performed_here;
} seen;

static volatile sig_atomic_t interrupted;
static char too_much[POOL_RECORD_MAX + 1];

static void send_file_of(struct pool_line *line)
{
    int pair[2];

    if (pipe(pair) || write(pair[1], "hello", 5) != 5)
        _exit(1);
    pool_send(line, "file", 4, pair[0]);
}

/* In a child of a worker, which may read what a stranger has made: nothing is shared with it. */
static bool shares_memory(void)
{
    char line[512], access[5] = "";
    FILE *maps = fopen("/proc/self/maps", "r");
    bool shares = !maps;

    while (maps && fgets(line, sizeof line, maps))
        shares |= sscanf(line, "%*s %4s", access) == 1 && access[1] == 'w' && access[3] == 's';
    return shares;
}

static int fork_in_worker(void)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        _exit(shares_memory());
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? FORKS + 1 : SHARES;
}

static int perform(void *ctx, size_t item, struct pool_line *line)
{
    (void)ctx;
    if (!line) {
        seen.performed_here++;
        return 1;
    }
    pool_mark(line, 5);
    switch (item) {
    case HANGS:
    case HANGS_TOO:
        for (;;)
            pause();
    case CRASHES:
        raise(SIGKILL);
        break;
    case SENDS_WRONG:
        pool_send(line, "wrong", 5, -1);
        for (;;)
            pause();
    case SENDS_TOO_MUCH:
        pool_send(line, too_much, sizeof too_much, -1);
        for (;;)
            pause();
    case ENDS:
        _exit(0);
    case SENDS_FILE:
        send_file_of(line);
        break;
    case FORKS:
        pool_send(line, "right", 5, -1);
        return fork_in_worker();
    default:
        pool_send(line, "right", 5, -1);
    }
    return (int)item + 1;
}

static bool receive(void *ctx, size_t item, const void *record, size_t size, int *fd)
{
    (void)ctx;
    CHECK(item < ITEMS);
    seen.received[item]++;
    if (size == 4 && memcmp(record, "file", 4) == 0) {
        AUTO_CLOSE int taken = steal_fd(fd);
        return CHECK(taken >= 0 && read(taken, seen.bytes, sizeof seen.bytes - 1) == 5);
    }
    CHECK(*fd < 0);
    return size == 5 && memcmp(record, "right", 5) == 0;
}

static bool has_children(void)
{
    return waitpid(-1, NULL, WNOHANG) == 0 || errno != ECHILD;
}

static void run(const struct procfs *proc, uint64_t until, struct pool_answer *answers)
{
    const struct pool_job job = {.count = ITEMS,
                                 .perform = perform,
                                 .receive = receive,
                                 .proc = proc,
                                 .until = until,
                                 .interrupted = &interrupted};

    memset(&seen, 0, sizeof seen);
    CHECK(pool_run(&job, answers) == 0);
    CHECK(!has_children());
    CHECK(seen.performed_here == 0);
}

static bool is_odd(size_t item)
{
    static const size_t odd[] = {HANGS,          HANGS_TOO, CRASHES,   SENDS_WRONG,
                                 SENDS_TOO_MUCH, ENDS,      SENDS_FILE};

    for (size_t i = 0; i < ARRAY_LEN(odd); i++)
        if (odd[i] == item)
            return true;
    return false;
}

/* Each costs itself, and nothing else. */
static void test_odd_items(const struct procfs *proc)
{
    struct pool_answer answers[ITEMS];

    run(proc, UINT64_MAX, answers);
    for (size_t i = 0; i < ITEMS; i++)
        if (!is_odd(i))
            CHECK(answers[i].end == POOL_DONE && answers[i].value == (int)i + 1 &&
                  seen.received[i] == 1);
    CHECK(answers[HANGS].end == POOL_STUCK && answers[HANGS].value == 5);
    CHECK(answers[HANGS_TOO].end == POOL_STUCK && answers[HANGS_TOO].begun);
    CHECK(answers[CRASHES].end == POOL_LOST && answers[CRASHES].signal == SIGKILL);
    CHECK(answers[SENDS_WRONG].end == POOL_LOST && seen.received[SENDS_WRONG] == 1);
    CHECK(answers[SENDS_TOO_MUCH].end == POOL_LOST && seen.received[SENDS_TOO_MUCH] == 0);
    CHECK(answers[ENDS].end == POOL_LOST && answers[ENDS].signal == 0);
    CHECK(answers[SENDS_FILE].end == POOL_DONE && strcmp(seen.bytes, "hello") == 0);
}

/* At the end of the time, or after Ctrl-C, nothing is begun any more, and nobody waits. */
static void test_ends(const struct procfs *proc)
{
    struct pool_answer answers[ITEMS];

    run(proc, 0, answers);
    CHECK(answers[HANGS].end != POOL_DONE && answers[ITEMS - 1].end != POOL_LOST);
    interrupted = 1;
    run(proc, UINT64_MAX, answers);
    CHECK(answers[HANGS].end != POOL_DONE);
    interrupted = 0;
}

int main(void)
{
    struct procfs proc;

    if (CHECK(procfs_open(&proc, "/proc") == 0)) {
        test_odd_items(&proc);
        test_ends(&proc);
    }
    procfs_close(&proc);
    return check_result();
}
