#include "cli/operand.h"
#include "base/util.h"
#include "cli/options.h"
#include "profile/faults.h"
#include "profile/heap_kind.h"
#include "profile/heap_unpack.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * A word names a file only if it is written like one, and the file is of this user or of root: in a
 * directory where others may write, nobody places a file in front of a process. It is looked at
 * before it is opened, as to open or read some files of /proc, and devices, has effects.
 */
static int open_own(const char *word)
{
    AUTO_CLOSE int fd = -1;
    char again[32];
    struct stat st;

    if (!strpbrk(word, "./") && strcmp(word, "core") != 0)
        return -1;
    fd = open(word, O_PATH | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || !st.st_size ||
        (st.st_uid != geteuid() && st.st_uid != 0))
        return -1;
    snprintf(again, sizeof again, "/proc/self/fd/%d", fd);
    return open(again, O_RDONLY | O_CLOEXEC | O_NOCTTY);
}

enum operand operand_of(const char *word)
{
    AUTO_CLOSE int fd = -1;
    char head[4096];
    const char *what;
    ssize_t len;
    pid_t pid;

    if (parse_pid(word, &pid))
        return OPERAND_PID;
    fd = open_own(word);
    len = fd < 0 ? -1 : pread(fd, head, sizeof head, 0);
    if (len > 0 && heap_other_kind(head, (size_t)len, &what) == PROFILE_CORE)
        return OPERAND_CORE;
    if (len > 0 && (heap_start(head, (size_t)len) != SIZE_MAX ||
                    heap_packing(head, (size_t)len) != HEAP_PLAIN))
        return OPERAND_PROFILE;
    return isalpha((unsigned char)*word) || *word == '_' || *word == '/' ? OPERAND_NAME
                                                                         : OPERAND_NONE;
}
