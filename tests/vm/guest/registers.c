/* The threads with unusual registers of tests/safety, and its restartable sequences. */
#include "../../victims/report.h"
#include "guest.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 3, ROUNDS_SECONDS = 60, ATTACHES = 2, ATTACHES_LONG = 24 };

struct beats {
    uint64_t rounds, wrong;
};

static struct beats read_beats(const char *directory)
{
    struct beats beats = {0};
    int fd = open(format("%s/beats", directory), O_RDONLY | O_CLOEXEC);

    if (fd >= 0 && read(fd, &beats, sizeof(beats)) != sizeof(beats))
        beats.wrong = 1;
    if (fd >= 0)
        close(fd);
    return beats;
}

/* "ready TID 0", or the reason why not. */
static bool is_ready(const char *directory)
{
    return strchr(read_file(format("%s/out", directory)), '\n') != NULL;
}

static void attach(pid_t pid, const char *tid, const char *mode)
{
    const char *const words[][4] = {
        {"on", NULL}, {"dump", "-o", "/dev/null", NULL}, {"stats", "--full", NULL}, {"off", NULL}};

    for (int i = 0; i < (long_run ? ATTACHES_LONG : ATTACHES); i++) {
        const char *const *word = words[i % 4];
        struct result result =
            TOOL(word[0], text_of(pid), "--thread", tid, word[1], word[1] ? word[2] : NULL);
        REQUIRE(result.code == 0, "%s, %s: %s", mode, word[0], result_text(&result));
    }
}

struct running {
    pid_t pid;
    int tid;
    const char *directory;
};

static bool start_mode(struct running *running, const char *mode, const char *variable)
{
    const char *directory = make_directory(), *out = format("%s/out", directory);
    struct start start = {
        .directory = directory,
        .out = open(out, O_WRONLY | O_CREAT | O_CLOEXEC, 0600),
        .variables = (const char *const[]){
            "MALLOC_CONF=prof:true,prof_active:false,lg_prof_sample:12", variable, NULL}};

    *running = (struct running){.directory = directory};
    running->pid = process_start(&start, (const char *const[]){"/victims/registers", mode, NULL});
    close(start.out);
    if (WAIT_UNTIL(is_ready(directory), ROUNDS_SECONDS) &&
        sscanf(read_file(out), "ready %d", &running->tid) == 1)
        return true;
    check_fail("%s does not start: %s", mode, read_file(out));
    return false;
}

static void goes_on(const struct running *running, const char *mode)
{
    uint64_t goal = read_beats(running->directory).rounds + ROUNDS;
    bool met =
        WAIT_UNTIL(read_beats(running->directory).rounds >= goal || !process_alive(running->pid),
                   ROUNDS_SECONDS);

    REQUIRE(process_alive(running->pid), "%s died", mode);
    REQUIRE(met, "%s stands still", mode);
    struct beats beats = read_beats(running->directory);
    REQUIRE(beats.wrong == 0, "%s: %llu of %llu rounds are wrong", mode,
            (unsigned long long)beats.wrong, (unsigned long long)beats.rounds);
}

static void check_mode(const char *mode)
{
    struct running running;

    if (!start_mode(&running, mode, NULL))
        return;
    attach(running.pid, text_of(running.tid), mode);
    if (!check_failed())
        goes_on(&running, mode);
    process_end(running.pid);
}

static void all_registers(void)
{
    static const char *const modes[] = {"direction", "alignment", "x87_control", "x87_stack",
                                        "mmx",       "mxcsr",     "gs_base",     "odd_stack"};

    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes) && !check_failed(); i++)
        check_mode(modes[i]);
}

static void restartable_sequences(void)
{
    check_mode("rseq");
}

/* Before 5.13 a kernel does not report them, nor does this C library: a running thread may be in
   one, a sleeping thread is not. */
static void untold(void)
{
    static const char *const words[] = {"safe point", "restartable sequence", NULL};
    static const char variable[] = "GLIBC_TUNABLES=glibc.pthread.rseq=0";
    struct start start = {.variables = (const char *const[]){variable, NULL}};
    bool old = strncmp(read_file("/proc/sys/kernel/osrelease"), "5.10", 4) == 0;
    struct victim asleep;
    struct running running;

    if (!victim_start(&asleep, "nanosleep", "30", &start) ||
        !start_mode(&running, "direction", variable))
        return;
    struct result result = TOOL("on", "--call", text_of(asleep.pid));
    REQUIRE(result.code == 0, "asleep: %s", result_text(&result));
    result = TOOL("on", "--timeout", old ? "1" : "30", text_of(running.pid), "--thread",
                  text_of(running.tid));
    if (result_is(&result, old ? 7 : 0, old ? words : NULL)) {
        goes_on(&running, "direction");
        victim_unharmed(&asleep);
    }
}

/* One damaged register of each kind that this CPU has: the victims notice it. */
static void sabotage(const char *what)
{
    struct victim victim;
    const char *const *words = victim_words(&victim, "spin", "60");
    struct start start = {0};

    REQUIRE(words, "no report can be made");
    const char *const all[] = {words[0], words[1], words[2], "--sabotage", what, NULL};
    victim.pid = process_start(&start, all);
    REQUIRE(
        WAIT_UNTIL(victim.report->errors || victim.report->state == REPORT_FAILED, ROUNDS_SECONDS),
        "%s is not seen", what);
    REQUIRE(victim.report->state != REPORT_FAILED, "%s: %s", what,
            (const char *)(uintptr_t)victim.report->text);
    process_end(victim.pid);
}

static const char *possible_sabotages(void)
{
    const char *out = format("%s/names", make_directory());
    struct start start = {.out = open(out, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
    pid_t pid =
        process_start(&start, (const char *const[]){"/victims/victim", "--sabotages", NULL});

    close(start.out);
    WAIT_UNTIL(!process_alive(pid), ROUNDS_SECONDS);
    return format("\n%s", read_file(out));
}

static void all_sabotages(void)
{
    static const char *const kinds[] = {"xmm", "ymm",   "zmm", "zmm-low", "k",
                                        "x87", "mxcsr", "gpr", "flags",   "redzone"};
    const char *possible = possible_sabotages(), *seen = "";

    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds) && !check_failed(); i++) {
        if (!strstr(possible, format("\n%s\n", kinds[i])))
            continue;
        sabotage(kinds[i]);
        seen = format("%s %s", seen, kinds[i]);
    }
    REQUIRE(strstr(seen, " redzone"), "not all are tried:%s", seen);
    check_note("seen:%s", seen);
}

const struct check register_checks[] = {
    {"registers", all_registers, false},
    {"registers.sabotages", all_sabotages, false},
    {"registers.rseq", restartable_sequences, false},
    {"registers.rseq_untold", untold, false},
    {NULL, NULL, false},
};
