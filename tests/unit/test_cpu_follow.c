/* The rules for leaving SCHED_IDLE, compared with the kernel; and that the tool leaves it in time.
 */
#include "check.h"
#include "inject/cpu_follow.h"

#include <errno.h>
#include <grp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534, SKIPPED = 3 };

static bool is_as_ever(void)
{
    return true;
}

static bool enter_namespace(void)
{
    return unshare(CLONE_NEWUSER) == 0;
}

static bool become_nobody(void)
{
    return setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
           setresuid(NOBODY, NOBODY, NOBODY) == 0;
}

static bool enter_namespace_as_nobody(void)
{
    return become_nobody() && prctl(PR_SET_DUMPABLE, 1) == 0 && enter_namespace();
}

static bool become_nobody_of_any_nice(void)
{
    const struct rlimit all = {40, 40};

    return setrlimit(RLIMIT_NICE, &all) == 0 && become_nobody();
}

static bool become_nobody_of_no_nice(void)
{
    const struct rlimit none = {0, 0};

    return setrlimit(RLIMIT_NICE, &none) == 0 && become_nobody();
}

static bool be_nicest(void)
{
    return setpriority(PRIO_PROCESS, 0, -20) == 0 && become_nobody_of_no_nice();
}

static bool comes_back(void)
{
    const struct sched_param none = {0};

    return sched_setscheduler(0, SCHED_IDLE, &none) == 0 &&
           sched_setscheduler(0, SCHED_OTHER, &none) == 0;
}

/* A thread that runs, and never stops, is followed until the tool has something to do itself. */
struct following {
    struct procfs proc;
    struct target target;
    struct cpu_follow follow;
};

static bool begin_following(struct following *following, const struct deadline *until)
{
    pid_t self = getpid();

    if (procfs_open(&following->proc, "/proc") ||
        target_open(&following->target, &following->proc, self, NULL) != FAULT_NONE)
        return false;
    cpu_follow_begin(&following->follow, &following->target, self, until, true);
    return sched_getscheduler(0) == SCHED_IDLE;
}

/* True if the policy was restored, by the end at the latest. */
static bool end_following(struct following *following)
{
    cpu_follow_end(&following->follow);
    target_close(&following->target);
    procfs_close(&following->proc);
    return sched_getscheduler(0) == SCHED_OTHER;
}

/* Ended by alarm if the policy stays. */
static void wait_for_policy(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    while (sched_getscheduler(0) != SCHED_OTHER)
        nanosleep(&pause, NULL);
}

static int follow_until_deadline(void)
{
    struct deadline until = {.at = clock_now() + UINT64_C(3600000000000)};
    static struct following following;

    if (!cpu_follow_may_idle())
        return SKIPPED;
    if (!begin_following(&following, &until))
        return 1;
    __atomic_store_n(&until.at, clock_now(), __ATOMIC_RELAXED);
    wait_for_policy();
    return !end_following(&following);
}

static int follow_until_interrupted(void)
{
    static volatile sig_atomic_t interrupted;
    const struct deadline until = {.at = clock_now() + UINT64_C(3600000000000),
                                   .interrupted = &interrupted};
    static struct following following;

    if (!cpu_follow_may_idle())
        return SKIPPED;
    if (!begin_following(&following, &until))
        return 1;
    interrupted = 1;
    wait_for_policy();
    return !end_following(&following);
}

/* A tool that is late already does not become idle. */
static int follow_too_late(void)
{
    const struct deadline until = {.at = clock_now()};
    static struct following following;

    if (!cpu_follow_may_idle())
        return SKIPPED;
    return begin_following(&following, &until) || !end_following(&following);
}

/* 0: correct, and the nice value is unchanged. */
static int look(bool (*scene)(void))
{
    if (!scene())
        return SKIPPED;
    int before = getpriority(PRIO_PROCESS, 0);
    bool may = cpu_follow_may_idle();
    bool kept = getpriority(PRIO_PROCESS, 0) == before;

    return !kept || may != comes_back();
}

/* In a child, which may be left at SCHED_IDLE; -1: it was killed. follow: instead of scene. */
static int look_apart(bool (*scene)(void), int (*follow)(void))
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        alarm(20);
        _exit(follow ? follow() : look(scene));
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

int main(void)
{
    static const struct {
        const char *name;
        bool (*scene)(void);
    } scenes[] = {
        {"as it was started", is_as_ever},
        {"a user namespace", enter_namespace},
        {"nobody", become_nobody},
        {"a user namespace of nobody's", enter_namespace_as_nobody},
        {"nobody, RLIMIT_NICE 40", become_nobody_of_any_nice},
        {"nobody, RLIMIT_NICE 0", become_nobody_of_no_nice},
        {"nobody, nice -20", be_nicest},
    };

    alarm(40);
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        int result = look_apart(scenes[i].scene, NULL);
        printf("%s: %s\n", scenes[i].name, result == SKIPPED ? "cannot be made" : "");
        CHECK(result == 0 || result == SKIPPED);
    }
    static int (*const follows[])(void) = {follow_until_deadline, follow_until_interrupted,
                                           follow_too_late};
    for (size_t i = 0; i < sizeof follows / sizeof *follows; i++) {
        int result = look_apart(NULL, follows[i]);
        CHECK(result == 0 || result == SKIPPED);
    }
    return check_result();
}
