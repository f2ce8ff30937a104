/* Every verb on a redis-server, on a static program, and on victims that check themselves. */
#include "../../victims/report.h"
#include "guest.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool begins(const struct result *result, const char *text)
{
    return strncmp(result->out, text, strlen(text)) == 0;
}

static bool has(const struct result *result, const char *text)
{
    return strstr(result->out, text) != NULL;
}

/* Runs one verb, which must succeed and print these words. */
#define SAYS(words, ...) PRINTS(words, TOOL(__VA_ARGS__))
#define STATIC_FILE      "/usr/bin/jeattach-static"
#define STATIC_SAYS(words, ...)                                                                    \
    PRINTS(words, tool_run(NULL, (const char *const[]){STATIC_FILE, __VA_ARGS__, NULL}))
#define PRINTS(words, run)                                                                         \
    do {                                                                                           \
        struct result result_ = run;                                                               \
        REQUIRE(result_.code == 0, "%s: %s", words, result_text(&result_));                        \
        REQUIRE(has(&result_, words), "no '%s' in: %.300s", words, result_.out);                   \
    } while (0)

static void whole_profile(const struct result *result)
{
    REQUIRE(result->code == 0, "dump: %s", result_text(result));
    REQUIRE(begins(result, "heap_v2/"), "no profile: %.60s", result->out);
    REQUIRE(has(result, "\n@ 0x"), "no stack in the profile");
    REQUIRE(has(result, "\nMAPPED_LIBRARIES:\n"), "no maps in the profile");
}

static void plain_dump(const char *pid)
{
    struct result result = TOOL("dump", pid);

    REQUIRE(result.code == 0, "dump: %s", result_text(&result));
    const char *path = format("%.*s", (int)strcspn(result.out, "\n"), result.out);
    REQUIRE(strncmp(read_file(path), "heap_v2/", 8) == 0, "no profile in '%s'", path);
}

static void profile_verbs(const char *pid)
{
    struct result result = TOOL("dump", "-o", "-", pid);

    whole_profile(&result);
    if (!check_failed())
        plain_dump(pid);
    result = TOOL("stats", "--full", "--json", pid);
    REQUIRE(result.code == 0 && begins(&result, "{"), "stats --json: %s", result_text(&result));
}

static void all_verbs(const char *pid)
{
    SAYS("prof.active   no", "status", pid);
    SAYS("prof.active: false -> true", "on", pid);
    SAYS("prof.active   yes", "status", pid);
    SAYS("prof.active: true -> false", "off", "--call", pid);
    SAYS("prof.active: false -> true", "on", "--call", pid);
    SAYS("in use", "stats", pid);
    SAYS("Allocated: ", "stats", "--full", pid);
    SAYS("opt.prof = true", "mallctl", pid, "opt.prof", "version");
    profile_verbs(pid);
    if (check_failed())
        return;
    SAYS("arena.0.dirty_decay_ms = ", "mallctl", pid, "arena.0.dirty_decay_ms=5000");
    SAYS("prof.active: true -> false", "off", pid);
    SAYS("prof.reset", "mallctl", pid, "prof.reset");
    SAYS("resident: ", "purge", pid);
}

static void on_redis(void)
{
    static struct snapshot before;
    struct redis redis;

    if (!redis_start(&redis, NULL))
        return;
    snapshot_take(&before, redis.pid, true);
    const char *pid = text_of(redis.pid);
    SAYS("redis-server", "ps");
    SAYS("prof.active: false -> true", "on", pid);
    redis_fill(&redis, 20000);
    SAYS("prof.active: true -> false", "off", pid);
    all_verbs(pid);
    REQUIRE(redis_answers(&redis), "it does not answer any more");
    snapshot_compare(&before, redis.pid);
}

/* What an operator types first, with the file that needs no library. */
static void static_file(void)
{
    struct redis redis;

    if (access(STATIC_FILE, X_OK) != 0) {
        check_skip("packaging/build has not made the static file");
        return;
    }
    if (!redis_start(&redis, NULL))
        return;
    const char *pid = text_of(redis.pid);
    const char *profile = format("%s/a.heap", redis.directory);
    STATIC_SAYS("prof.active: false -> true", "on", pid);
    redis_fill(&redis, 20000);
    STATIC_SAYS("redis-server", "ps");
    STATIC_SAYS("next:", "explain", pid);
    STATIC_SAYS("in use", "stats", pid);
    STATIC_SAYS(profile, "dump", "--no-call", pid, "-o", profile);
    STATIC_SAYS("createObject", "report", profile);
    REQUIRE(redis_answers(&redis), "it does not answer any more");
}

/* Static, position independent, jemalloc with a prefix of its own. */
static void on_static_program(void)
{
    const char *directory = make_directory();
    int in[2], out[2];
    char ready[16] = "";

    REQUIRE(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0, "no pipes");
    struct start start = {
        .in = in[0],
        .out = out[1],
        .variables = (const char *const[]){
            format("MALLOC_CONF=prof:true,lg_prof_sample:8,prof_prefix:%s/jeprof", directory),
            NULL}};
    if (access("/victims/allocator", X_OK) != 0) {
        check_skip("no static jemalloc could be had");
        return;
    }
    pid_t pid = process_start(&start, (const char *const[]){"/victims/allocator", NULL});
    close(in[0]);
    close(out[1]);
    if (read(out[0], ready, sizeof(ready) - 1) <= 0)
        check_fail("it does not start");
    if (!check_failed())
        SAYS("prof.active: true -> false", "off", text_of(pid));
    if (!check_failed())
        all_verbs(text_of(pid));
    if (!check_failed() && (write(in[1], "work 5\n", 7) != 7 || read(out[0], ready, 3) != 3))
        check_fail("it does not work any more");
    close(in[1]);
    close(out[0]);
}

/* A thread in a system call that is restarted, in one that is not, and a running one. */
static void on_victim(const char *mode)
{
    static struct snapshot before;
    struct victim victim;

    if (!victim_start(&victim, mode, "40", NULL))
        return;
    snapshot_take(&before, victim.pid, false);
    all_verbs(text_of(victim.pid));
    if (!check_failed())
        victim_unharmed(&victim);
    if (!check_failed())
        snapshot_compare(&before, victim.pid);
}

static void on_nanosleep(void)
{
    on_victim("nanosleep");
}

static void on_epoll_wait(void)
{
    on_victim("epoll_wait");
}

/* The vector registers are full while it spins. */
static void on_spin(void)
{
    struct victim victim;

    if (!victim_start(&victim, "spin", "40", NULL))
        return;
    SAYS("prof.active: false -> true", "on", "--call", text_of(victim.pid));
    profile_verbs(text_of(victim.pid));
    if (!check_failed())
        victim_unharmed(&victim);
}

static void on_spin_all(void)
{
    on_victim("spin");
}

static void on_malloc(void)
{
    struct victim victim;

    if (!victim_start(&victim, "malloc", "40", NULL))
        return;
    SAYS("prof.active: false -> true", "on", "--call", text_of(victim.pid));
    SAYS("prof.active: true -> false", "off", "--call", text_of(victim.pid));
    victim_unharmed(&victim);
}

static void nothing_to_attach_to(void)
{
    struct result result = TOOL("on", "99999");

    result_is(&result, 3, (const char *const[]){"no such process", NULL});
}

const struct check verb_checks[] = {
    {"verbs.redis", on_redis, false},
    {"verbs.static", on_static_program, false},
    {"verbs.static_file", static_file, false},
    {"verbs.nanosleep", on_nanosleep, true},
    {"verbs.epoll_wait", on_epoll_wait, false},
    {"verbs.spin", on_spin, false},
    {"verbs.spin_all", on_spin_all, true},
    {"verbs.malloc", on_malloc, true},
    {"verbs.no_process", nothing_to_attach_to, false},
    {NULL, NULL, false},
};
