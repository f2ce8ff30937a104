#include "host/pool.h"
#include "base/interruptions.h"
#include "base/util.h"
#include "host/passed_file.h"
#include "host/task.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

/*
 * LOOK_MS: between two looks at the workers. A worker that has not advanced at
 * LOOKS_STALLED of them has another one beside it, unless COMPUTING_MAX compute.
 * LOOKS_ASLEEP in one sleep: its item is given up; half of that for each GIVEN_UP items before it,
 * three times at most: whoever makes many such processes cannot keep the tool. LOOKS_AT_END: the
 * same at the deadline.
 */
enum {
    WORKERS_MAX = 32, /* each may have the mappings of a process in memory */
    COMPUTING_MAX = 4,
    LOOK_MS = 20,
    LOOKS_STALLED = 2,
    LOOKS_ASLEEP = 50,
    LOOKS_AT_END = 5,
    GIVEN_UP = 32,
    HALVINGS_MAX = 3,
    CPU_SECONDS_MAX = 10,
    FAILED_MAX = 8,
    REAP_MS = 500,
};

/* What workers and tool share. The tool believes none of it: each number is checked. */
struct pool_board {
    _Atomic size_t next; /* the next item to be begun */
    struct {
        _Atomic size_t item; /* 1 + the item that this worker works on; 0: none */
    } slots[WORKERS_MAX];
    struct {
        atomic_bool done;
        atomic_int value;
    } items[];
};

struct pool_worker {
    pid_t pid;        /* 0: none in this slot */
    bool dying;       /* it was killed; its item is answered */
    int socket;       /* -1: closed */
    size_t item;      /* as on the board at the last look */
    int same, asleep; /* looks at which it had this item; of these, in one sleep */
    uint64_t switches;
    uint64_t cpu_ticks; /* when it began the item */
};

struct pool {
    const struct pool_job *job;
    struct pool_answer *answers;
    struct pool_board *board;
    size_t board_size;
    struct pool_worker workers[WORKERS_MAX];
    size_t given_up;
    int failed; /* workers that have ended without an item, and not as they should */
    bool no_fork;
    char record[POOL_RECORD_MAX + sizeof(size_t)];
};

struct pool_line {
    struct pool *pool;
    int socket;
    size_t item;
};

/* ---- in a worker ---- */

void pool_send(struct pool_line *line, const void *record, size_t size, int fd)
{
    struct iovec parts[] = {{&line->item, sizeof line->item}, {(void *)(uintptr_t)record, size}};

    if (passed_file_send(line->socket, parts, ARRAY_LEN(parts), fd, 0) < 0)
        _exit(1);
}

void pool_mark(struct pool_line *line, int value)
{
    atomic_store(&line->pool->board->items[line->item].value, value);
}

static void perform_item(struct pool *pool, size_t item, struct pool_line *line)
{
    int value = pool->job->perform(pool->job->ctx, item, line);

    atomic_store(&pool->board->items[item].value, value);
    atomic_store(&pool->board->items[item].done, true);
}

/*
 * The three standard streams become the socket: a worker that not even SIGKILL ends
 * must not keep the reader of the tool's output waiting.
 */
static _Noreturn void work(struct pool *pool, size_t slot, int socket, pid_t tool)
{
    struct pool_board *board = pool->board;
    struct pool_line line = {.pool = pool, .socket = socket};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != tool)
        _exit(1);
    interruptions_handle(SIG_IGN); /* the tool decides, and kills */
    for (int stream = 0; stream <= STDERR_FILENO; stream++)
        if (dup2(socket, stream) < 0)
            _exit(1);
    for (size_t i = 0; i < WORKERS_MAX; i++)
        util_close(&pool->workers[i].socket);
    if (madvise(board, pool->board_size, MADV_DONTFORK)) /* its own children get no part of it */
        _exit(1);
    while ((line.item = atomic_fetch_add(&board->next, 1)) < pool->job->count) {
        atomic_store(&board->slots[slot].item, line.item + 1);
        perform_item(pool, line.item, &line);
        atomic_store(&board->slots[slot].item, 0);
    }
    _exit(0);
}

/* ---- starting and ending workers ---- */

static bool start_pool_worker(struct pool *pool, struct pool_worker *worker)
{
    size_t slot = (size_t)(worker - pool->workers);
    pid_t tool = getpid(), pid;
    int pair[2];

    if (pool->failed > FAILED_MAX || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return false;
    atomic_store(&pool->board->slots[slot].item, 0);
    pid = fork();
    if (pid == 0) {
        close(pair[0]);
        work(pool, slot, pair[1], tool);
    }
    close(pair[1]);
    if (pid < 0)
        util_close(&pair[0]);
    *worker = (struct pool_worker){.pid = pid < 0 ? 0 : pid, .socket = pair[0]};
    return pid > 0;
}

/* Returns the answer of the item that the worker works on; NULL: it has none. */
static struct pool_answer *worker_answer(struct pool *pool, const struct pool_worker *worker)
{
    size_t item = atomic_load(&pool->board->slots[worker - pool->workers].item);

    if (!item || item > pool->job->count || atomic_load(&pool->board->items[item - 1].done))
        return NULL;
    return &pool->answers[item - 1];
}

static void give_up_item(struct pool *pool, struct pool_worker *worker, enum pool_end end)
{
    struct pool_answer *answer = worker_answer(pool, worker);
    struct proc_syscall call = {.nr = -1};
    char text[256];
    ssize_t n = procfs_read(pool->job->proc, text, sizeof text, "%d/syscall", (int)worker->pid);

    if (n > 0 && !parse_syscall(text, (size_t)n, &call))
        call.nr = -1;
    util_close(&worker->socket);
    kill(worker->pid, SIGKILL);
    worker->dying = true;
    if (!answer)
        return;
    *answer = (struct pool_answer){.end = end, .call = call.nr};
    pool->given_up++;
}

/* Frees the slot of a worker that has ended. False: it has not ended yet. */
static bool reap_worker(struct pool *pool, struct pool_worker *worker)
{
    int status = 0;
    pid_t ended = waitpid(worker->pid, &status, WNOHANG);

    if (!ended || (ended < 0 && errno != ECHILD))
        return false;
    if (!worker->dying) {
        struct pool_answer *answer = worker_answer(pool, worker);
        if (answer)
            *answer = (struct pool_answer){.end = POOL_LOST,
                                           .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0};
        pool->given_up += answer != NULL;
        pool->failed += !answer && status;
    }
    util_close(&worker->socket);
    *worker = (struct pool_worker){.socket = -1};
    return true;
}

/* ---- looking at them ---- */

/* A thread that slept at two looks, and has slept no further time in between, is in one sleep. */
static void look_at_sleep(struct pool *pool, struct pool_worker *worker)
{
    const struct procfs *proc = pool->job->proc;
    struct proc_stat stat;
    struct proc_status status;
    uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK) * CPU_SECONDS_MAX;

    if (process_stat(proc, worker->pid, &stat) || process_status(proc, worker->pid, &status))
        return;
    bool sleeps = stat.state == 'D' || stat.state == 'S';
    worker->asleep =
        sleeps && status.voluntary_switches == worker->switches ? worker->asleep + 1 : 0;
    worker->switches = status.voluntary_switches;
    if (worker->same == LOOKS_STALLED)
        worker->cpu_ticks = stat.cpu_ticks;
    if (worker->asleep >= LOOKS_ASLEEP >>
        (pool->given_up / GIVEN_UP < HALVINGS_MAX ? pool->given_up / GIVEN_UP : HALVINGS_MAX))
        give_up_item(pool, worker, POOL_STUCK);
    else if (stat.cpu_ticks - worker->cpu_ticks > ticks)
        give_up_item(pool, worker, POOL_SLOW);
}

static bool has_more(const struct pool *pool)
{
    return atomic_load(&pool->board->next) < pool->job->count;
}

/* As many as are stalled are to advance beside them, up to a limit: their number doubles. */
static void start_pool_workers(struct pool *pool)
{
    size_t stalled = 0, computing = 0, advancing = 0;

    for (size_t i = 0; i < WORKERS_MAX; i++) {
        bool is_stalled = pool->workers[i].dying || pool->workers[i].same >= LOOKS_STALLED;
        stalled += pool->workers[i].pid && is_stalled;
        computing += is_stalled && !pool->workers[i].dying && !pool->workers[i].asleep;
        advancing += pool->workers[i].pid && !is_stalled;
    }
    for (; has_more(pool) && computing < COMPUTING_MAX && advancing < (stalled ? stalled : 1);
         advancing++) {
        size_t slot = 0;
        while (slot < WORKERS_MAX && pool->workers[slot].pid)
            slot++;
        if (slot == WORKERS_MAX || !start_pool_worker(pool, &pool->workers[slot]))
            break;
    }
    pool->no_fork = !stalled && !advancing && has_more(pool);
}

/* ---- records ---- */

/* False: there is none, or the worker is not to be listened to any more. */
static bool receive_record(struct pool *pool, struct pool_worker *worker)
{
    const struct pool_job *job = pool->job;
    AUTO_CLOSE int fd = -1;
    ssize_t n = passed_file_receive(worker->socket, pool->record, sizeof pool->record,
                                    MSG_DONTWAIT | MSG_TRUNC, &fd);
    size_t item;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        util_close(&worker->socket);
        kill(worker->pid, SIGKILL); /* in vain, if it ends by itself: its status stays */
        return false;
    }
    if ((size_t)n >= sizeof item && (size_t)n <= sizeof pool->record) {
        memcpy(&item, pool->record, sizeof item);
        if (item < job->count &&
            job->receive(job->ctx, item, pool->record + sizeof item, (size_t)n - sizeof item, &fd))
            return true;
    }
    give_up_item(pool, worker, POOL_LOST);
    return false;
}

/* Waits for records until the time of the next look. */
static void wait_for_records(struct pool *pool, uint64_t until)
{
    struct pollfd polled[WORKERS_MAX];
    uint64_t now = clock_now();
    bool ends = false;

    for (size_t i = 0; i < WORKERS_MAX; i++) {
        const struct pool_worker *worker = &pool->workers[i];
        polled[i] = (struct pollfd){worker->pid ? worker->socket : -1, POLLIN, 0};
        ends |= worker->pid && worker->socket < 0;
    }
    int ms = now >= until ? 0 : ends ? 1 : (int)((until - now) / 1000000) + 1;
    if (poll(polled, WORKERS_MAX, ms) <= 0)
        return;
    for (size_t i = 0; i < WORKERS_MAX; i++)
        while (polled[i].revents && receive_record(pool, &pool->workers[i]))
            ;
}

/* ---- the whole ---- */

static bool is_time_up(const struct pool *pool)
{
    const struct pool_job *job = pool->job;

    return (job->interrupted && *job->interrupted) || clock_now() >= job->until;
}

/* Counts the workers that work; frees the slots of the others. */
static size_t reap_workers(struct pool *pool)
{
    size_t working = 0;

    for (size_t i = 0; i < WORKERS_MAX; i++)
        if (pool->workers[i].pid && pool->workers[i].socket < 0)
            (void)reap_worker(pool, &pool->workers[i]);
    for (size_t i = 0; i < WORKERS_MAX; i++)
        working += pool->workers[i].pid && !pool->workers[i].dying;
    return working;
}

static void run_in_workers(struct pool *pool)
{
    uint64_t look = clock_now() + LOOK_MS * 1000000u;

    start_pool_workers(pool);
    while (!pool->no_fork && !is_time_up(pool)) {
        wait_for_records(pool, look);
        size_t working = reap_workers(pool);
        if (!working && !has_more(pool))
            return;
        if (working && clock_now() < look)
            continue;
        for (size_t i = 0; i < WORKERS_MAX; i++) {
            struct pool_worker *worker = &pool->workers[i];
            size_t item = atomic_load(&pool->board->slots[i].item);
            if (!worker->pid || worker->dying)
                continue;
            worker->same = item && item == worker->item ? worker->same + 1 : 0;
            if (!worker->same)
                worker->asleep = 0;
            worker->item = item;
            if (worker->same >= LOOKS_STALLED)
                look_at_sleep(pool, worker);
        }
        start_pool_workers(pool);
        look = clock_now() + LOOK_MS * 1000000u;
    }
}

static void end_workers(struct pool *pool)
{
    uint64_t until = clock_now() + REAP_MS * 1000000u;
    bool left = true;

    wait_for_records(pool, 0);
    for (size_t i = 0; i < WORKERS_MAX; i++)
        if (pool->workers[i].pid && !pool->workers[i].dying)
            give_up_item(pool, &pool->workers[i],
                         pool->workers[i].asleep >= LOOKS_AT_END ? POOL_STUCK : POOL_LATE);
    while (left && clock_now() < until) {
        left = false;
        for (size_t i = 0; i < WORKERS_MAX; i++)
            left |= pool->workers[i].pid && !reap_worker(pool, &pool->workers[i]);
        if (left)
            (void)poll(NULL, 0, 1);
    }
}

int pool_run(const struct pool_job *job, struct pool_answer *answers)
{
    struct pool *pool = calloc(1, sizeof *pool);
    size_t item;

    if (!pool)
        return ENOMEM;
    pool->board_size = sizeof *pool->board + job->count * sizeof *pool->board->items;
    pool->job = job;
    pool->answers = answers;
    for (size_t i = 0; i < WORKERS_MAX; i++)
        pool->workers[i].socket = -1;
    memset(answers, 0, job->count * sizeof *answers);
    pool->board =
        mmap(NULL, pool->board_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (pool->board == MAP_FAILED) {
        free(pool);
        return ENOMEM;
    }
    run_in_workers(pool);
    while (pool->no_fork && !is_time_up(pool) &&
           (item = atomic_fetch_add(&pool->board->next, 1)) < job->count)
        perform_item(pool, item, NULL);
    end_workers(pool);

    size_t next = atomic_load(&pool->board->next);
    for (size_t i = 0; i < job->count; i++) {
        answers[i].begun = i < next;
        answers[i].value = atomic_load(&pool->board->items[i].value);
        if (answers[i].end == POOL_LATE && atomic_load(&pool->board->items[i].done))
            answers[i].end = POOL_DONE;
    }
    munmap(pool->board, pool->board_size);
    free(pool);
    return 0;
}
