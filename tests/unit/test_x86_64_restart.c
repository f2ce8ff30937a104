/* x86-64: the interrupted system calls that are restarted, and from which registers. */
#include "check.h"
#include "inject/arch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

/* include/linux/errno.h */
enum { ERESTARTSYS = 512, ERESTARTNOINTR, ERESTARTNOHAND, ENOIOCTLCMD, ERESTART_RESTARTBLOCK };

static arch_regs stopped(long nr, int64_t result)
{
    arch_regs regs;

    memset(&regs, 0, sizeof regs);
    regs.rip = 0x401002;
    regs.rax = (unsigned long long)result;
    regs.orig_rax = (unsigned long long)nr;
    return regs;
}

static void test_restarts(void)
{
    static const struct {
        int64_t result;
        bool restarts, by_block;
    } rows[] = {
        {-ERESTARTSYS, true, false},
        {-ERESTARTNOINTR, true, false},
        {-ERESTARTNOHAND, true, false},
        {-ENOIOCTLCMD, false, false},
        {-ERESTART_RESTARTBLOCK, true, true},
        {-ERESTART_RESTARTBLOCK - 1, false, false},
        {-511, false, false},
        {-EINTR, false, false},
        {0, false, false},
        {ERESTARTSYS, false, false},
        {INT64_MAX, false, false},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        arch_regs in_call = stopped(SYS_read, rows[i].result), outside = in_call;
        CHECK(arch_restarts(&in_call) == rows[i].restarts);
        CHECK(arch_restarts_by_block(&in_call) == rows[i].by_block);
        outside.orig_rax = (unsigned long long)-1; /* rax is a value of the program's own */
        CHECK(!arch_restarts(&outside) && !arch_restarts_by_block(&outside));
        CHECK(!arch_eintr_by_stop(&outside));
    }
}

/* A system call may return any number: an lseek in /proc/PID/mem, for one. */
static void test_smallest_result(void)
{
    arch_regs regs = stopped(SYS_lseek, INT64_MIN);

    CHECK(!arch_restarts(&regs) && !arch_restarts_by_block(&regs) && !arch_eintr_by_stop(&regs));
}

static void test_system_call_zero(void)
{
    arch_regs regs = stopped(0, -ERESTARTSYS); /* read(2) */

    CHECK(arch_syscall_nr(&regs) == 0 && arch_restarts(&regs));
    regs.orig_rax = (unsigned long long)-1;
    CHECK(arch_syscall_nr(&regs) == -1);
}

/* Calls that only wait, and others that end in part, cannot be repeated, or would be done twice. */
static void test_repeatable(void)
{
    static const long waiting[] =
        {SYS_futex,           SYS_epoll_wait,     SYS_poll,    SYS_pselect6, SYS_read,
         SYS_recvfrom,        SYS_wait4,          SYS_accept4, SYS_pause,    SYS_rt_sigsuspend,
         SYS_clock_nanosleep, SYS_restart_syscall},
                      others[] = {SYS_close, SYS_dup2,    SYS_mkdir,          SYS_openat, SYS_write,
                                  SYS_ioctl, SYS_sendmsg, SYS_io_uring_enter, SYS_fcntl,  -1};

    for (size_t i = 0; i < ARRAY_LEN(waiting); i++)
        CHECK(arch_is_repeatable(waiting[i]));
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        CHECK(!arch_is_repeatable(others[i]));
}

/* signal(7), "Interruption of system calls ... by stop signals" */
static void test_eintr(void)
{
    static const struct {
        long nr;
        bool by_stop;
    } rows[] = {
        {SYS_epoll_wait, true},   {SYS_epoll_pwait, true},      {SYS_epoll_pwait2, true},
        {SYS_semop, true},        {SYS_semtimedop, true},       {SYS_rt_sigtimedwait, true},
        {SYS_io_getevents, true}, {SYS_io_uring_enter, true},   {SYS_recvfrom, true},
        {SYS_accept4, true},      {SYS_connect, true},          {SYS_sendmsg, true},
        {SYS_read, true},         {SYS_rt_sigsuspend, false},   {SYS_pause, false},
        {SYS_wait4, false},       {SYS_nanosleep, false},       {SYS_poll, false},
        {SYS_futex, false},       {SYS_close, false},           {SYS_fsync, false},
        {SYS_openat, false},      {SYS_restart_syscall, false}, {SYS_msgrcv, false},
        {SYS_mkdir, false},       {SYS_unlinkat, false},        {SYS_renameat2, false},
        {SYS_dup2, false},        {SYS_lseek, false},           {SYS_fallocate, false},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        arch_regs regs = stopped(rows[i].nr, -EINTR);
        if (!CHECK(arch_eintr_by_stop(&regs) == rows[i].by_stop))
            fprintf(stderr, "  system call %ld\n", rows[i].nr);
        regs = stopped(rows[i].nr, -EAGAIN);
        CHECK(!arch_eintr_by_stop(&regs));
        regs = stopped(rows[i].nr, 4);
        CHECK(!arch_eintr_by_stop(&regs));
        regs = stopped(rows[i].nr + (1l << 32), -EINTR);
        CHECK(!arch_eintr_by_stop(&regs));
    }
}

static void test_rewind(void)
{
    arch_regs regs = stopped(SYS_epoll_wait, -EINTR);

    regs.rdi = 1;
    regs.rcx = 2;
    arch_rewind(&regs);
    CHECK(regs.rip == 0x401000 && regs.rax == SYS_epoll_wait && (int64_t)regs.orig_rax == -1);
    CHECK(regs.rdi == 1 && regs.rcx == 2);
    CHECK(!arch_restarts(&regs) && arch_syscall_nr(&regs) == -1);
}

static void test_restart_block(void)
{
    CHECK(arch_uses_restart_block(SYS_nanosleep));
    CHECK(arch_uses_restart_block(SYS_clock_nanosleep));
    CHECK(arch_uses_restart_block(SYS_restart_syscall));
    CHECK(!arch_uses_restart_block(SYS_munmap) && !arch_uses_restart_block(SYS_write));
}

/* mov $nr,%eax; syscall */
static void test_loaded_nr(void)
{
    unsigned char code[16] = {[9] = 0xb8, [14] = 0x0f, [15] = 0x05};
    const uint32_t nr = SYS_clock_nanosleep;

    memcpy(code + 10, &nr, sizeof nr);
    CHECK(arch_loaded_nr(code + sizeof code) == SYS_clock_nanosleep);
    CHECK(arch_loaded_nr(code + sizeof code - 1) == -1);
    code[9] = 0xb9; /* into another register */
    CHECK(arch_loaded_nr(code + sizeof code) == -1);
}

/* Only calls that the kernel restarts in this way (ERESTART_RESTARTBLOCK). */
static void test_name_restarted(void)
{
    static const struct {
        long nr;
        bool named;
    } rows[] = {{SYS_poll, true},  {SYS_nanosleep, true}, {SYS_clock_nanosleep, true},
                {SYS_futex, true}, {SYS_read, false},     {SYS_restart_syscall, false},
                {-1, false}};
    const arch_regs other = stopped(SYS_read, -EINTR);

    CHECK(!arch_is_restarted(&other));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        arch_regs regs = stopped(SYS_restart_syscall, -EINTR);
        CHECK(arch_is_restarted(&regs));
        arch_name_restarted(&regs, rows[i].nr);
        CHECK((long)regs.orig_rax == (rows[i].named ? rows[i].nr : SYS_restart_syscall));
    }
}

/* The kernel's own restart, and back: rax is restart_syscall(2), pc is at the instruction. */
static void test_before_restart(void)
{
    static const unsigned char in_call[] = {0x0f, 0x05}, elsewhere[] = {0x0f, 0x0b};
    static const struct {
        long last, named; /* orig_rax, which the kernel leaves unchanged; -1 after an interrupt */
    } rows[] = {{SYS_poll, SYS_poll},
                {SYS_restart_syscall, SYS_restart_syscall},
                {-1, SYS_restart_syscall}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        arch_regs regs = stopped(rows[i].last, SYS_restart_syscall);
        CHECK(arch_names_restart(&regs) && arch_is_syscall(in_call) && !arch_is_syscall(elsewhere));
        arch_take_back_restart(&regs);
        CHECK(!arch_names_restart(&regs));
        CHECK(arch_restarts_by_block(&regs) && regs.rip == 0x401004);
        CHECK((long)regs.orig_rax == rows[i].named);
    }
}

static void test_opens(void)
{
    static const struct {
        long nr;
        uint64_t args[6];
        remote_addr path; /* 0: no open for writing */
        remote_addr read; /* 0: no open for reading */
    } rows[] = {
        {SYS_open, {0x10, O_WRONLY | O_CREAT | O_TRUNC, 0600}, 0x10, 0},
        {SYS_open, {0x10, O_RDONLY, 0}, 0, 0x10},
        {SYS_open, {0x10, O_RDWR, 0}, 0, 0},
        {SYS_creat, {0x10, 0600}, 0x10, 0},
        {SYS_openat, {(uint64_t)AT_FDCWD, 0x20, O_WRONLY | O_CREAT}, 0x20, 0},
        {SYS_openat, {(uint64_t)AT_FDCWD, 0x20, O_RDONLY | O_CLOEXEC}, 0, 0x20},
        {SYS_openat, {O_CREAT, 0x20, O_RDONLY, O_CREAT}, 0, 0x20},
        {SYS_openat, {(uint64_t)AT_FDCWD, 0x20, O_RDONLY | O_CREAT}, 0x20, 0},
        {SYS_write, {0x10, O_CREAT, O_CREAT}, 0, 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        remote_addr path = 0;
        bool opens = arch_opens_for_writing((uint64_t)rows[i].nr, rows[i].args, &path);
        CHECK(opens == (rows[i].path != 0) && (!opens || path == rows[i].path));
        opens = arch_opens_for_reading((uint64_t)rows[i].nr, rows[i].args, &path);
        CHECK(opens == (rows[i].read != 0) && (!opens || path == rows[i].read));
    }
    CHECK(arch_is_write(SYS_write) && !arch_is_write(SYS_read) && !arch_is_write(SYS_writev));
    CHECK(arch_is_read(SYS_read) && !arch_is_read(SYS_write) && !arch_is_read(SYS_pread64));
    CHECK(arch_is_close(SYS_close) && !arch_is_close(SYS_close_range));
}

/* munmap(2) refuses an address within a page before it checks anything else (mm/mmap.c). */
static void test_void(void)
{
    struct __ptrace_syscall_info entry = {.op = PTRACE_SYSCALL_INFO_ENTRY};
    arch_regs regs = stopped(SYS_write, 0);

    entry.entry.args[0] = 0x3fffffff;
    CHECK(arch_can_void(&entry, true));
    entry.entry.args[0] = 0x1001;
    CHECK(arch_can_void(&entry, true));
    entry.entry.args[0] = 0x1000;
    CHECK(!arch_can_void(&entry, true) && arch_can_void(&entry, false));
    entry.entry.args[0] = 0;
    CHECK(!arch_can_void(&entry, true) && arch_can_void(&entry, false));
    regs.rip = 0x1234;
    arch_void_syscall(&regs, true);
    CHECK(regs.orig_rax == SYS_munmap && regs.rip == 0x1234);
    arch_void_syscall(&regs, false);
    CHECK((int64_t)regs.orig_rax == -1 && regs.rip == 0x1234 && (int64_t)regs.rax == -EINVAL);
    arch_set_result(&regs, -ENOSPC);
    CHECK((int64_t)regs.rax == -ENOSPC);
}

static void test_final_sigreturn(void)
{
    struct __ptrace_syscall_info info = {.op = PTRACE_SYSCALL_INFO_ENTRY, .stack_pointer = 0x1008};

    info.entry.nr = SYS_rt_sigreturn;
    CHECK(arch_is_final_sigreturn(&info, 0x1000));
    CHECK(!arch_is_final_sigreturn(&info, 0x1008));
    info.entry.nr = SYS_munmap;
    CHECK(!arch_is_final_sigreturn(&info, 0x1000));
    info.entry.nr = SYS_rt_sigreturn;
    info.op = PTRACE_SYSCALL_INFO_EXIT;
    CHECK(!arch_is_final_sigreturn(&info, 0x1000));
}

static void test_registers(void)
{
    arch_regs regs = stopped(SYS_read, 0);
    uint64_t value;
    const uint64_t head[3] = {0x7000, 0, 0};

    regs.rsp = 7;
    regs.fs_base = 0x7000;
    regs.cs = 0x33;
    CHECK(arch_pc(&regs) == 0x401002 && arch_sp(&regs) == 7 && arch_tls(&regs) == 0x7000);
    CHECK(arch_is_native(&regs));
    regs.cs = 0x23;
    CHECK(!arch_is_native(&regs));
    arch_set_pc(&regs, 9);
    CHECK(arch_pc(&regs) == 9);
    CHECK(arch_tls_is_libc(0x7000, head) && !arch_tls_is_libc(0x7008, head));
    CHECK(!arch_tls_is_libc(0, (const uint64_t[3]){0}));
    regs.rdx = 11;
    CHECK(arch_unwind_register(&regs, 1, &value) && value == 11);
    CHECK(arch_unwind_register(&regs, 7, &value) && value == 7);
    CHECK(arch_unwind_register(&regs, 16, &value) && value == 9);
    CHECK(!arch_unwind_register(&regs, 17, &value) && !arch_unwind_register(&regs, -1, &value));
}

int main(void)
{
    test_restarts();
    test_smallest_result();
    test_system_call_zero();
    test_eintr();
    test_repeatable();
    test_rewind();
    test_restart_block();
    test_loaded_nr();
    test_name_restarted();
    test_before_restart();
    test_opens();
    test_void();
    test_final_sigreturn();
    test_registers();
    return check_result();
}
