#include "../../victims/report.h"
#include "guest.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { START_SECONDS = 60, ROUNDS_SECONDS = 60, ANSWER_SECONDS = 60, SETTLE_SECONDS = 10 };

static const char *malloc_conf(const char *directory, int sample)
{
    return format("MALLOC_CONF=prof:true,prof_active:false,lg_prof_sample:%d,prof_prefix:%s/jeprof",
                  sample, directory);
}

/* ---- tests/victims/victim ---- */

static bool map_report(struct victim *victim)
{
    int fd = open(victim->report_path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    void *area = MAP_FAILED;

    if (fd >= 0 && fchmod(fd, 0666) == 0 && ftruncate(fd, sizeof(struct report)) == 0)
        area = mmap(NULL, sizeof(struct report), PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    victim->report = area;
    return area != MAP_FAILED;
}

const char *const *victim_words(struct victim *victim, const char *mode, const char *ms)
{
    static const char *words[6];

    *victim = (struct victim){.directory = make_directory()};
    victim->report_path = format("%s/report", victim->directory);
    if (!map_report(victim))
        return NULL;
    words[0] = "/victims/victim";
    words[1] = mode;
    words[2] = victim->report_path;
    words[3] = "--time";
    words[4] = ms;
    words[5] = NULL;
    return words;
}

bool victim_ready(struct victim *victim)
{
    return WAIT_UNTIL(victim->report->state != REPORT_STARTING, START_SECONDS) &&
           victim->report->state == REPORT_READY;
}

bool victim_start(struct victim *victim, const char *mode, const char *ms,
                  const struct start *start)
{
    const char *const *words = victim_words(victim, mode, ms);
    struct start own = start ? *start : (struct start){0};

    if (!words) {
        check_fail("no report can be made");
        return false;
    }
    own.variables = (const char *const[]){malloc_conf(victim->directory, 12),
                                          own.variables ? own.variables[0] : NULL, NULL};
    victim->pid = process_start(&own, words);
    if (victim_ready(victim))
        return true;
    check_fail("the victim does not start: %s", victim->report->text);
    return false;
}

bool victim_goes_on(const struct victim *victim, unsigned rounds)
{
    uint64_t goal = victim->report->iterations + rounds;

    return WAIT_UNTIL(victim->report->iterations >= goal || !process_alive(victim->pid),
                      ROUNDS_SECONDS) &&
           process_alive(victim->pid);
}

/* How late a timeout is, and how early by this clock, depends on the emulating machine. */
void victim_unharmed(const struct victim *victim)
{
    const volatile struct report *report = victim->report;

    REQUIRE(victim_goes_on(victim, 2), "the victim %s",
            process_alive(victim->pid) ? "hangs" : "died");
    REQUIRE(!report->errors, "%llu rounds are wrong: %s", (unsigned long long)report->errors,
            (const char *)(uintptr_t)report->text);
    REQUIRE(!report->eintr, "%llu calls ended with EINTR", (unsigned long long)report->eintr);
    REQUIRE(!report->early, "%llu calls ended too early", (unsigned long long)report->early);
    REQUIRE(!report->errno_lost, "errno changed %llu times",
            (unsigned long long)report->errno_lost);
    REQUIRE(strcmp(status_field(victim->pid, "TracerPid"), "0") == 0, "it is still traced");
}

/* ---- redis-server ---- */

static bool receive(int fd, char *answer, size_t size)
{
    ssize_t n = recv(fd, answer, size - 1, 0);

    answer[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static int redis_connect(const struct redis *redis)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval patience = {ANSWER_SECONDS, 0};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", redis->socket);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    close(fd);
    return -1;
}

static bool redis_ask(const struct redis *redis, const char *line, const char *wanted)
{
    char answer[256] = "";
    int fd = redis_connect(redis);
    bool good = fd >= 0 && send(fd, line, strlen(line), MSG_NOSIGNAL) == (ssize_t)strlen(line) &&
                receive(fd, answer, sizeof(answer)) && strncmp(answer, wanted, strlen(wanted)) == 0;

    if (fd >= 0)
        close(fd);
    return good;
}

bool redis_answers(const struct redis *redis)
{
    return redis_ask(redis, "PING\r\n", "+PONG");
}

/* By a script in the server, so that the values need not pass through the socket. */
void redis_fill(const struct redis *redis, unsigned values)
{
    const char *line = format("EVAL \"for i=1,%u do redis.call('set','k'..i,string.rep('x',400)) "
                              "end\" 0\r\n",
                              values);

    if (!redis_ask(redis, line, "$-1"))
        check_fail("redis-server does not take values");
}

bool redis_start(struct redis *redis, const char *group)
{
    const char *directory = make_directory(), *path = format("%s/socket", directory);
    struct start start = {.group = group,
                          .variables = (const char *const[]){malloc_conf(directory, 14), NULL}};

    *redis = (struct redis){.socket = path, .directory = directory};
    redis->pid = process_start(&start, (const char *const[]){"redis-server", "--port", "0",
                                                             "--daemonize", "no", "--appendonly",
                                                             "no", "--save", "", "--dir", directory,
                                                             "--unixsocket", path, NULL});
    if (WAIT_UNTIL(redis_answers(redis) || !process_alive(redis->pid), START_SECONDS) &&
        process_alive(redis->pid))
        return true;
    check_fail("redis-server does not start");
    return false;
}

/* ---- state before and after ---- */

static void add(struct snapshot *snapshot, const char *text)
{
    size_t used = strlen(snapshot->text);

    snprintf(snapshot->text + used, sizeof(snapshot->text) - used, "%s\n", text);
}

static unsigned count_entries(const char *path)
{
    DIR *dir = opendir(path);
    unsigned count = 0;

    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

/* File mappings, with their protection: anonymous ones come and go, and are merged. */
static void add_mappings(struct snapshot *snapshot, pid_t pid)
{
    FILE *file = fopen(format("/proc/%d/maps", (int)pid), "re");
    char line[512], path[256], protection[8];
    unsigned long start, end;

    while (file && fgets(line, sizeof(line), file)) {
        path[0] = '\0';
        sscanf(line, "%lx-%lx %7s %*s %*s %*s %255s", &start, &end, protection, path);
        if (path[0] == '/')
            add(snapshot, format("%lx-%lx %s %s", start, end, protection, path));
        else if (path[0] != '[' && strchr(protection, 'x'))
            add(snapshot, "executable memory without a file");
    }
    if (file)
        fclose(file);
}

void snapshot_take(struct snapshot *snapshot, pid_t pid, bool serves)
{
    static const char *const fields[] = {"SigBlk", "SigIgn", "SigCgt", "TracerPid"};

    snapshot->text[0] = '\0';
    snapshot->serves = serves;
    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
        add(snapshot, status_field(pid, fields[i]));
    if (!serves) {
        add(snapshot, status_field(pid, "Threads"));
        add(snapshot, format("%u descriptors", count_entries(format("/proc/%d/fd", (int)pid))));
    }
    add_mappings(snapshot, pid);
}

static bool same_now(const struct snapshot *before, struct snapshot *now, pid_t pid)
{
    snapshot_take(now, pid, before->serves);
    return strcmp(before->text, now->text) == 0;
}

void snapshot_compare(const struct snapshot *before, pid_t pid)
{
    static struct snapshot now;
    size_t same = 0;

    if (WAIT_UNTIL(same_now(before, &now, pid), SETTLE_SECONDS))
        return;
    while (before->text[same] == now.text[same])
        same++;
    while (same && before->text[same - 1] != '\n')
        same--;
    check_fail("it is not as it was: %.60s, was %.60s", now.text + same, before->text + same);
}
