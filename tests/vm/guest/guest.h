/*
 * Shared by the checks inside the virtual machine: a first process without a shell or an
 * interpreter, which starts the tool and its targets and checks the results.
 */
#ifndef VM_GUEST_H
#define VM_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ALL_CAPABILITIES UINT64_MAX
#define LATE             (-1000) /* exit code of a tool that had to be killed */

/* ---- checks (init.c) ---- */

struct check {
    const char *name;
    void (*run)(void);
    bool long_only;
};

extern const struct check verb_checks[], blocking_checks[], register_checks[], kill_checks[],
    cgroup_checks[], yama_checks[], apparmor_checks[], memory_checks[], dispatch_checks[];

extern bool long_run; /* everything, not only the short run */

/* The first failure of a check counts; the check may continue. */
void check_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The check is not possible on this kernel. */
void check_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Sets the text after the name in the line of a check that passes. */
void check_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool check_failed(void);

/* Ends the check if the condition is false. */
#define REQUIRE(condition, ...)                                                                    \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            check_fail(__VA_ARGS__);                                                               \
            return;                                                                                \
        }                                                                                          \
    } while (0)

/* ---- processes (process.c): each ends with the check that started it ---- */

struct user {
    uid_t uid;
    uint64_t capabilities;
};

extern const struct user root, alice, bob;

struct start {
    const struct user *user;      /* NULL: root */
    const char *const *variables; /* of the environment, beside PATH; NULL: none */
    const char *group;            /* directory of its cgroup; NULL: the root's */
    const char *label;            /* AppArmor profile from exec on; NULL: none */
    const char *directory;        /* where it runs; NULL: / */
    bool consents;                /* PR_SET_PTRACER: any process may trace it */
    int in, out, err;             /* descriptors; 0: /dev/null */
};

pid_t process_start(const struct start *start, const char *const *words);
/* Runs in a child before it executes a program. Does not return on failure. */
void process_become(const struct start *start);
bool process_alive(pid_t pid);
void process_end(pid_t pid);
void processes_end_all(void);

/* The result of a run of `words`. The texts are valid until the next run. */
struct result {
    int code; /* of its exit; minus a signal; LATE */
    const char *out, *err;
    size_t out_len;
};

struct result process_result(pid_t pid, const char *out_path, const char *err_path);
struct result tool_run(const struct start *start, const char *const *words);
/* Runs them as root, with the words of the call. */
#define TOOL(...) tool_run(NULL, (const char *const[]){"jeattach", __VA_ARGS__, NULL})

/* "code 4: jeattach: cannot ..." in one line, valid until the next call. */
const char *result_text(const struct result *result);
/* Requires that code, and each of the words on its stderr. */
bool result_is(const struct result *result, int code, const char *const *words);

/* ---- helpers (util.c) ---- */

const char *text_of(long number);
/* A formatted text, valid for the rest of the check. */
const char *format(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The start of a file, "" if it cannot be read; valid for the next seven calls. */
const char *read_file(const char *path);
bool write_file(const char *path, const char *text);
/* The value of a field of /proc/PID/status, "" if there is none. */
const char *status_field(pid_t pid, const char *name);
uint64_t now_ms(void);
void pause_ms(unsigned ms);
/* A new directory that everyone may write. */
const char *make_directory(void);
/* A new file of numbers that everyone may write, mapped; NULL if it cannot be made. */
const volatile uint64_t *map_numbers(const char *path);

#define WAIT_UNTIL(condition, seconds)                                                             \
    ({                                                                                             \
        uint64_t wait_end_ = now_ms() + (seconds)*1000u;                                           \
        bool wait_met_;                                                                            \
        while (!(wait_met_ = (condition)) && now_ms() < wait_end_)                                 \
            pause_ms(5);                                                                           \
        wait_met_;                                                                                 \
    })

/* ---- targets (targets.c) ---- */

struct report;

struct victim {
    pid_t pid;
    const volatile struct report *report;
    const char *directory, *report_path;
};

/* tests/victims/victim in one of its modes; false if it does not start: the check has failed. */
bool victim_start(struct victim *victim, const char *mode, const char *ms,
                  const struct start *start);
/* The command that starts one, for a process that becomes its parent. */
const char *const *victim_words(struct victim *victim, const char *mode, const char *ms);
bool victim_ready(struct victim *victim);
bool victim_goes_on(const struct victim *victim, unsigned rounds);
/* It continues, is not traced, and its own checks found nothing. */
void victim_unharmed(const struct victim *victim);

struct redis {
    pid_t pid;
    const char *socket, *directory;
};

bool redis_start(struct redis *redis, const char *group);
bool redis_answers(const struct redis *redis);
void redis_fill(const struct redis *redis, unsigned values);

/* The state that an attach must leave unchanged: masks, dispositions, descriptors, threads,
   mappings. */
struct snapshot {
    bool serves;
    char text[16384];
};

/* serves: its own threads and connections come and go. */
void snapshot_take(struct snapshot *snapshot, pid_t pid, bool serves);
/* Fails the check if it differs for longer than a moment. */
void snapshot_compare(const struct snapshot *before, pid_t pid);

#endif
