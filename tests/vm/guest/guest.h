/*
 * What the checks inside the virtual machine share: a first process without a shell or an
 * interpreter below it, which starts the tool and its targets and looks at what becomes of them.
 */
#ifndef VM_GUEST_H
#define VM_GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ALL_CAPABILITIES UINT64_MAX
#define LATE             (-1000) /* exit code of a tool that had to be ended */

/* ---- checks (init.c) ---- */

struct check {
    const char *name;
    void (*run)(void);
    bool long_only;
};

extern const struct check verb_checks[], blocking_checks[], register_checks[], kill_checks[],
    cgroup_checks[], yama_checks[], apparmor_checks[], memory_checks[], dispatch_checks[];

extern bool long_run; /* all of it, not only what the short run has time for */

/* The first failure of a check counts; the check may go on. */
void check_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* It cannot be made on this kernel. */
void check_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What the line of a good check says behind its name. */
void check_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool check_failed(void);

/* Ends the check when the condition does not hold. */
#define REQUIRE(condition, ...)                                                                    \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            check_fail(__VA_ARGS__);                                                               \
            return;                                                                                \
        }                                                                                          \
    } while (0)

/* ---- processes (process.c): all of them are ended with the check that started them ---- */

struct user {
    uid_t uid;
    uint64_t capabilities;
};

extern const struct user root, alice, bob;

struct start {
    const struct user *user;      /* NULL: root */
    const char *const *variables; /* of the environment, beside PATH; NULL: none */
    const char *group;            /* directory of its control group; NULL: the root's */
    const char *label;            /* AppArmor profile from exec on; NULL: none */
    const char *directory;        /* where it runs; NULL: / */
    bool consents;                /* PR_SET_PTRACER: whoever wants may trace it */
    int in, out, err;             /* descriptors; 0: /dev/null */
};

pid_t process_start(const struct start *start, const char *const *words);
/* What a child does before it is another program. Does not return on failure. */
void process_become(const struct start *start);
bool process_alive(pid_t pid);
void process_end(pid_t pid);
void processes_end_all(void);

/* What `words` came to. The texts are good until the next run. */
struct result {
    int code; /* of its exit; minus a signal; LATE */
    const char *out, *err;
    size_t out_len;
};

struct result process_result(pid_t pid, const char *out_path, const char *err_path);
struct result tool_run(const struct start *start, const char *const *words);
/* The same as root, with the words of the call. */
#define TOOL(...) tool_run(NULL, (const char *const[]){"jeattach", __VA_ARGS__, NULL})

/* "code 4: jeattach: cannot ..." in one line, good until the next call. */
const char *result_text(const struct result *result);
/* Requires that code and that each of the words is in what it says on stderr. */
bool result_is(const struct result *result, int code, const char *const *words);

/* ---- small things (util.c) ---- */

const char *text_of(long number);
/* A text of its own, good for the rest of the check. */
const char *format(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The start of a file, "" if it cannot be read; good until the next call but seven. */
const char *read_file(const char *path);
bool write_file(const char *path, const char *text);
/* The value of a field of /proc/PID/status, "" if there is none. */
const char *status_field(pid_t pid, const char *name);
uint64_t now_ms(void);
void pause_ms(unsigned ms);
/* A new directory that everyone may write. */
const char *make_directory(void);
/* A new file of numbers that everyone may write, mapped; NULL: it cannot be made. */
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

/* tests/victims/victim in one of its modes; false: it does not start, and the check has failed. */
bool victim_start(struct victim *victim, const char *mode, const char *ms,
                  const struct start *start);
/* The words that start one, for a process that becomes its parent. */
const char *const *victim_words(struct victim *victim, const char *mode, const char *ms);
bool victim_ready(struct victim *victim);
bool victim_goes_on(const struct victim *victim, unsigned rounds);
/* It goes on, nobody holds it, and its own checks found nothing. */
void victim_unharmed(const struct victim *victim);

struct redis {
    pid_t pid;
    const char *socket, *directory;
};

bool redis_start(struct redis *redis, const char *group);
bool redis_answers(const struct redis *redis);
void redis_fill(const struct redis *redis, unsigned values);

/* All that an attach must leave as it was: masks, dispositions, descriptors, threads, mappings. */
struct snapshot {
    bool serves;
    char text[16384];
};

/* serves: threads and connections of its own come and go. */
void snapshot_take(struct snapshot *snapshot, pid_t pid, bool serves);
/* Fails the check when it differs, for longer than a moment. */
void snapshot_compare(const struct snapshot *before, pid_t pid);

#endif
