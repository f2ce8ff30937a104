/*
 * A process that process_vm_readv(2) cannot read: some of its pages never arrive (userfaultfd(2)).
 *
 *   stuck data    the data of jemalloc (it is started with jemalloc preloaded)
 *   stuck none    none
 *
 * Prints "ready". Exit code 77, with the reason: the kernel does not support it. Ends with its
 * parent.
 */
#include "nobody.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int skip(const char *what)
{
    printf("%s: %s\n", what, strerror(errno));
    return 77;
}

/* Nobody serves these pages. It fails before they are lost, so that the reason can be printed. */
static int lose(uintptr_t from, uintptr_t to)
{
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {.range = {from, to - from},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};
    int faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

    if (faults < 0 || ioctl(faults, UFFDIO_API, &api))
        return skip("userfaultfd");
    if (ioctl(faults, UFFDIO_REGISTER, &range))
        return skip("UFFDIO_REGISTER");
    return madvise((void *)from, to - from, MADV_DONTNEED) ? skip("madvise") : 0;
}

/* Finds the pages that the library alone may write: the next ones may be the C library's. */
static int find_data(struct dl_phdr_info *info, size_t size, void *range)
{
    uintptr_t *from = range, *to = from + 1, relro = 0;

    (void)size;
    if (!strstr(info->dlpi_name, "libjemalloc.so"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + part->p_vaddr, end = start + part->p_memsz;
        if (part->p_type == PT_GNU_RELRO)
            relro = end;
        if (part->p_type == PT_LOAD && part->p_flags & PF_W) {
            *from = start;
            *to = end;
        }
    }
    *from = ((relro > *from ? relro : *from) + 4095) & -(uintptr_t)4096;
    *to = (*to + 4095) & -(uintptr_t)4096;
    return 1;
}

/* Only anonymous pages can be lost: all of them become such, with their bytes. */
static int lose_data(void)
{
    uintptr_t range[2], from, to;

    if (!dl_iterate_phdr(find_data, range))
        return skip("libjemalloc.so");
    from = range[0];
    to = range[1];
    if (mmap((void *)from, to - from, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        return skip("mmap");
    return lose(from, to);
}

int main(int argc, char **argv)
{
    static const char ready[] = "ready\n";
    static char buffer[BUFSIZ]; /* stdout allocates nothing */
    const char *what = argc > 1 ? argv[1] : "none";
    int code = 0;

    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    if (strcmp(what, "data") == 0)
        code = lose_data();
    if (!code && !become_nobody())
        code = skip("setresuid");
    if (code)
        return code;
    if (write(STDOUT_FILENO, ready, sizeof ready - 1) <= 0)
        return 1;
    for (;;)
        pause();
}
