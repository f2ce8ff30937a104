/*
 * The first process of the virtual machine: runs the checks, writes a line for each to the second
 * serial port, and ends the machine with an exit code (isa-debug-exit).
 *
 *   ok NAME MS NOTE | FAIL NAME MS: REASON | skip NAME MS: REASON
 *   total N ok, N failed, N skipped
 */
#include "guest.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <termios.h>
#include <unistd.h>

#define DEBUG_EXIT_PORT 0xf4

bool long_run;
static int report_fd;
static char only[64]; /* prefixes of names, with commas between; "": all */
static unsigned passed, failed, skipped;

static enum verdict { GOOD, BAD, SKIPPED } verdict;
static char reason[1024];

__attribute__((format(printf, 2, 0))) static void set_verdict(enum verdict value, const char *text,
                                                              va_list args)
{
    if (verdict == BAD)
        return;
    verdict = value;
    vsnprintf(reason, sizeof(reason), text, args);
}

void check_fail(const char *text, ...)
{
    va_list args;

    va_start(args, text);
    set_verdict(BAD, text, args);
    va_end(args);
}

void check_skip(const char *text, ...)
{
    va_list args;

    va_start(args, text);
    set_verdict(SKIPPED, text, args);
    va_end(args);
}

void check_note(const char *text, ...)
{
    va_list args;

    va_start(args, text);
    set_verdict(verdict, text, args);
    va_end(args);
}

bool check_failed(void)
{
    return verdict == BAD;
}

__attribute__((format(printf, 1, 2))) static void tell(const char *text, ...)
{
    char line[2048];
    va_list args;

    va_start(args, text);
    vsnprintf(line, sizeof(line) - 1, text, args);
    va_end(args);
    for (char *p = line; *p; p++)
        if ((unsigned char)*p < ' ')
            *p = ' ';
    strcat(line, "\n");
    if (write(report_fd, line, strlen(line)) < 0)
        reboot(RB_POWER_OFF);
}

/* True if the name begins with one of the prefixes in `only`, or there is none. */
static bool is_selected(const char *name)
{
    const char *prefix = only;
    size_t length;

    do {
        length = strcspn(prefix, ",");
        if (strncmp(name, prefix, length) == 0)
            return true;
        prefix += length + 1;
    } while (prefix[-1] == ',');
    return false;
}

static void run_check(const struct check *check)
{
    if ((check->long_only && !long_run) || !is_selected(check->name))
        return;
    verdict = GOOD;
    reason[0] = '\0';
    uint64_t begun = now_ms();
    check->run();
    processes_end_all();
    unsigned ms = (unsigned)(now_ms() - begun);

    passed += verdict == GOOD;
    failed += verdict == BAD;
    skipped += verdict == SKIPPED;
    if (verdict == GOOD)
        tell("ok %s %u %s", check->name, ms, reason);
    else
        tell("%s %s %u: %s", verdict == BAD ? "FAIL" : "skip", check->name, ms, reason);
}

static void run_all(void)
{
    /* The checks of yama come last: its scope 3 cannot be undone. */
    static const struct check *const groups[] = {verb_checks,     blocking_checks, register_checks,
                                                 kill_checks,     cgroup_checks,   memory_checks,
                                                 dispatch_checks, apparmor_checks, yama_checks};

    for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++)
        for (const struct check *check = groups[i]; check->name; check++)
            run_check(check);
}

static void mount_at(const char *type, const char *path)
{
    mkdir(path, 0755);
    mount(type, path, type, 0, NULL);
}

static void mount_all(void)
{
    mount_at("devtmpfs", "/dev");
    mount_at("proc", "/proc");
    mount_at("sysfs", "/sys");
    mount_at("securityfs", "/sys/kernel/security");
    mount_at("cgroup2", "/sys/fs/cgroup");
    mount_at("tmpfs", "/tmp");
    mkdir("/dev/shm", 0777);
    mount_at("tmpfs", "/dev/shm");
    mkdir("/dev/mqueue", 0777);
    mount_at("mqueue", "/dev/mqueue");
    mkdir("/dev/pts", 0755);
    mount("devpts", "/dev/pts", "devpts", 0, "ptmxmode=0666");
    chmod("/tmp", 01777);
}

/* jeattach.long jeattach.only=NAME,NAME, in the kernel's command line */
static void read_options(void)
{
    const char *text = read_file("/proc/cmdline");
    const char *wanted = strstr(text, "jeattach.only=");

    long_run = strstr(text, "jeattach.long") != NULL;
    if (wanted)
        sscanf(wanted, "jeattach.only=%63s", only);
}

static void open_descriptors(void)
{
    int null = open("/dev/null", O_RDWR);

    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    if (null > 2)
        close(null);
    report_fd = open("/dev/ttyS1", O_WRONLY | O_NOCTTY | O_CLOEXEC);
}

static void shut_down(unsigned char code)
{
    tcdrain(report_fd);
    if (ioperm(DEBUG_EXIT_PORT, 1, 1) == 0)
        outb(code, DEBUG_EXIT_PORT);
    reboot(RB_POWER_OFF);
}

int main(void)
{
    struct utsname name;

    mount_all();
    open_descriptors();
    read_options();
    uname(&name);
    tell("kernel %s", name.release);
    run_all();
    tell("total %u ok, %u failed, %u skipped", passed, failed, skipped);
    shut_down(failed ? 1 : 0);
    return 0;
}
