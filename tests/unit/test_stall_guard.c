/*
 * A read that waits for the thread that is stopped ends the tool, which resumes it: here the page
 * that it reads never arrives (userfaultfd(2)).
 */
#include "base/util.h"
#include "check.h"
#include "run/faults.h"
#include "run/stall_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, ENDED = 42, SKIPPED = 77 };

static int on_stall(void *ctx, const struct fault *fault)
{
    (void)ctx;
    return fault->code == FAULT_NO_ANSWER_HELD && strcmp(fault->what, "process_vm_readv") == 0
               ? ENDED
               : 1;
}

static _Noreturn void skip(const char *what)
{
    printf("%s: %s\n", what, strerror(errno));
    exit(SKIPPED);
}

/* A page whose data nobody supplies. */
static void *missing_page(void)
{
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register area = {.range = {.len = PAGE}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

    if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
        skip("userfaultfd");
    area.range.start = (uintptr_t)page;
    if (ioctl(fd, UFFDIO_REGISTER, &area))
        skip("UFFDIO_REGISTER");
    return page;
}

static _Noreturn void read_for_ever(void *page)
{
    const volatile pid_t held = getpid();
    const struct stall_guard_case what = {.tid = &held, .held = &held, .stalled = on_stall};
    struct iovec local = {(char[8]){0}, 8}, remote = {page, 8};
    struct stall_guard guard;

    alarm(40);
    stall_guard_start(&guard, 0, &what);
    (void)!process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    _exit(2);
}

int main(void)
{
    void *page = missing_page();
    uint64_t begun = clock_now();
    int status = 0;
    pid_t pid;

    /* The registration is not inherited: each process needs its own page. */
    pid = fork();
    if (pid == 0)
        read_for_ever(missing_page());
    munmap(page, PAGE);
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == ENDED);
    CHECK(clock_now() - begun >= 1800000000); /* a slow read is not an endless one */
    CHECK(clock_now() - begun < 20000000000);
    return check_result();
}
