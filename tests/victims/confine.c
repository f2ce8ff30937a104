/*
 * Runs a program under a seccomp filter that refuses some calls, as the profile
 * of a container would: confine EPERM|ENOSYS|KILL CALL[,CALL...] PROGRAM ARGUMENT...
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
    const char *name;
    unsigned nr;
} calls[] = {
    {"ptrace", SYS_ptrace},
    {"process_vm_readv", SYS_process_vm_readv},
    {"process_vm_writev", SYS_process_vm_writev},
    {"perf_event_open", SYS_perf_event_open},
    {"pidfd_getfd", 438}, /* not in the headers of older C libraries */
};

enum { CALLS = sizeof calls / sizeof *calls };

static int install(const char *list, unsigned action)
{
    struct sock_filter code[CALLS + 3];
    unsigned short n = 0;
    unsigned char wanted = 0;

    for (unsigned i = 0; i < CALLS; i++)
        wanted = (unsigned char)(wanted + (strstr(list, calls[i].name) != NULL));
    code[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0, left = wanted; i < CALLS; i++)
        if (strstr(list, calls[i].name))
            code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].nr,
                                                     (unsigned char)left--, 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
    return wanted && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &(struct sock_fprog){n, code}) == 0;
}

int main(int argc, char **argv)
{
    unsigned action = SECCOMP_RET_ERRNO | EPERM;

    if (argc < 4)
        return 2;
    if (strcmp(argv[1], "ENOSYS") == 0)
        action = SECCOMP_RET_ERRNO | ENOSYS;
    else if (strcmp(argv[1], "KILL") == 0)
        action = SECCOMP_RET_KILL_PROCESS;
    if (!install(argv[2], action)) {
        perror("confine");
        return 77;
    }
    execv(argv[3], argv + 3);
    perror(argv[3]);
    return 1;
}
