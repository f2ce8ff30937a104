/* The executable files of a process: PROCMAP_QUERY and maps agree. */
#include "check.h"
#include "host/codefiles.h"
#include "host/task.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

static struct code_file list[CODE_FILES_MAX];

static bool is_code_of_file(const struct map_entry *entry)
{
    return entry->prot & MAP_EXEC && entry->inode != 0;
}

static bool same(const struct code_file *code, const struct map_entry *entry)
{
    return code->inode == entry->inode && code->dev_major == entry->dev_major &&
           code->dev_minor == entry->dev_minor && code->offset == entry->offset &&
           code->size == entry->end - entry->start &&
           memcmp(code->head, (const void *)(uintptr_t)entry->start, CODE_HEAD) == 0;
}

static void test_own(const struct procfs *proc)
{
    AUTO_FREE char *text = NULL;
    ssize_t len = procfs_slurp(proc, &text, 1 << 20, "self/maps"), count, seen = 0;
    struct cursor maps = cursor_of(text, len > 0 ? (size_t)len : 0);
    struct map_entry entry;

    count = code_files(proc, getpid(), list);
    while (parse_map_line(&maps, &entry) > 0) {
        if (!is_code_of_file(&entry))
            continue;
        CHECK(seen < count && same(&list[seen], &entry));
        seen++;
    }
    CHECK(seen > 0 && seen == count);
}

/* A process that has ended and was not reaped yet has no memory. */
static void test_zombie(const struct procfs *proc)
{
    siginfo_t info;
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
    CHECK(code_files(proc, pid, list) <= 0);
    waitpid(pid, NULL, 0);
    CHECK(code_files(proc, pid, list) == -ENOENT);
}

int main(void)
{
    struct procfs proc;

    if (!CHECK(procfs_open(&proc, "/proc") == 0))
        return check_result();
    if (code_files(&proc, getpid(), list) == -ENOTTY) {
        puts("SKIP: this kernel has no PROCMAP_QUERY");
        return 77;
    }
    test_own(&proc);
    test_zombie(&proc);
    procfs_close(&proc);
    return check_result();
}
