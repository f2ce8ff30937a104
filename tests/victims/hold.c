/* A tracer that keeps a process attached, like a debugger: hold PID. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    pid_t pid = argc == 2 ? atoi(argv[1]) : 0;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (pid <= 0 || ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0) {
        perror("hold");
        return 1;
    }
    puts("holding");
    fflush(stdout);
    for (;;)
        pause();
}
