#include "host/freezer.h"
#include "base/util.h"
#include "host/cgroup.h"
#include "host/inroot.h"
#include "host/task.h"

#include <string.h>

/* freezer.state and cgroup.events also reflect the state of the ancestors. */
static const struct {
    enum freezer freezer;
    enum cgroup_tree tree;
    const char *mount, *file, *word;
} places[] = {
    {FREEZER_V1, CGROUP_V1_FREEZER, "/sys/fs/cgroup/freezer", "freezer.state", "FROZEN"},
    {FREEZER_V1, CGROUP_V1_FREEZER, "/sys/fs/cgroup/freezer", "freezer.state", "FREEZING"},
    {FREEZER_V2, CGROUP_V2, "/sys/fs/cgroup", "cgroup.events", "frozen 1"},
    {FREEZER_V2, CGROUP_V2, "/sys/fs/cgroup/unified", "cgroup.events", "frozen 1"},
};

/* True if the cgroup's file has the word. */
static bool group_file_has(const struct procfs *proc, const struct cgroup_dir *dir,
                           const char *file, const char *word)
{
    AUTO_CLOSE int group = cgroup_dir_name(proc, dir);
    char state[256];

    return group >= 0 && group_file_read(proc, group, file, state, sizeof state) > 0 &&
           strstr(state, word);
}

enum freezer freezer_of_group(const struct procfs *proc, pid_t pid, char *path, size_t size)
{
    AUTO_FREE char *cgroups = NULL;
    char group[FREEZER_PATH_MAX];
    struct cgroup_dir dir;
    struct cursor text;

    if (!cgroup_read(proc, pid, &cgroups, &text))
        return FREEZER_NONE;
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        if (!cgroup_path(text, places[i].tree, group, sizeof group) ||
            !cgroup_dir_usual(PROC_SELF, places[i].mount, group, &dir) ||
            strlen(dir.path) >= size) /* cut off, it would name another cgroup */
            continue;
        if (group_file_has(proc, &dir, places[i].file, places[i].word)) {
            strcpy(path, dir.path);
            return places[i].freezer;
        }
    }
    return FREEZER_NONE;
}

/* True if text begins with one of the names. */
static bool begins_with(const char *text, const char *const *names)
{
    for (; *names; names++)
        if (strncmp(text, *names, strlen(*names)) == 0)
            return true;
    return false;
}

/*
 * cgroup v1 freezes a thread in its sleep (since 6.1) or in a separate function, in
 * the uninterruptible state: D, in a function where only an interruptible wait is
 * possible. With cgroup v2 the thread waits in get_signal, where no other thread
 * sleeps (do_freezer_trap). /proc/PID/wchan names the function to users who may
 * read the memory, and is "0" to others.
 */
static bool thread_is_frozen(const struct procfs *proc, pid_t pid, pid_t tid)
{
    static const char *const stops[] = {"do_freezer_trap", "get_signal", NULL};
    static const char *const sleeps[] = {
        "__refrigerator",        "refrigerator",  "hrtimer_nanosleep", "do_nanosleep",
        "common_nsleep",         "do_epoll_wait", "ep_poll",           "futex_",
        "poll_schedule_timeout", "do_poll",       "do_sys_poll",       "do_select",
        "do_sigtimedwait",       "sigsuspend",    "inet_csk_accept",   NULL};
    char where[128];
    struct proc_stat stat;

    if (thread_stat(proc, pid, tid, &stat) || !strchr("SD", stat.state) ||
        !thread_wchan(proc, pid, tid, where, sizeof where))
        return false;
    return begins_with(where, stat.state == 'S' ? stops : sleeps);
}

bool freezer_of_threads(const struct procfs *proc, pid_t pid)
{
    struct task_dir dir;
    bool all = true;
    size_t count = 0;
    pid_t tid;

    (void)task_dir_of_threads(&dir, proc, pid);
    while (all && (tid = task_dir_next(&dir))) {
        all = thread_is_frozen(proc, pid, tid);
        count++;
    }
    task_dir_close(&dir);
    return all && count > 0;
}
