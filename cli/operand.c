#include "cli/operand.h"
#include "base/util.h"
#include "cli/options.h"
#include "profile/faults.h"
#include "profile/heap_kind.h"
#include "profile/heap_unpack.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int operand_open(const char *path)
{
    AUTO_CLOSE int fd = -1;
    struct stat st;

    if (stat(path, &st) ||
        (S_ISREG(st.st_mode) &&
         ((fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)) < 0 || fstat(fd, &st))))
        return -errno;
    return S_ISREG(st.st_mode) ? steal_fd(&fd) : -EINVAL;
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
    fd = operand_open(word);
    len = fd < 0 ? -1 : pread(fd, head, sizeof head, 0);
    if (len > 0 && heap_other_kind(head, (size_t)len, &what) == PROFILE_CORE)
        return OPERAND_CORE;
    if (len > 0 && (heap_start(head, (size_t)len) != SIZE_MAX ||
                    heap_packing(head, (size_t)len) != HEAP_PLAIN))
        return OPERAND_PROFILE;
    return isalpha((unsigned char)*word) || *word == '_' || *word == '/' ? OPERAND_NAME
                                                                         : OPERAND_NONE;
}
