/* The file of -o: complete or absent. */
#include "base/interruptions.h"
#include "base/util.h"
#include "check.h"
#include "cli/output/stdout.h"
#include "run/faults.h"
#include "run/output.h"
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

static struct tree tree;
static char name[TREE_PATH_MAX];

static const char *path_of(const char *file)
{
    return tree_name(&tree, file, name);
}

static bool holds(const char *file, const char *text)
{
    char buf[256];
    return tree_read(&tree, file, buf, sizeof buf) >= 0 && strcmp(buf, text) == 0;
}

static bool absent(const char *file)
{
    struct stat st;
    return lstat(path_of(file), &st) != 0;
}

/* Entries of the directory, temporary files included. */
static unsigned entries(void)
{
    DIR *dir = opendir(tree.path);
    unsigned count = 0;

    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count - 2;
}

static mode_t mode_of(const char *file)
{
    struct stat st;
    return stat(path_of(file), &st) ? 0 : st.st_mode & 07777;
}

static void test_new_file(void)
{
    struct output output;
    unsigned count = entries();

    umask(027);
    CHECK(output_open(&output, path_of("new"), NULL) == FAULT_NONE);
    CHECK(absent("new") && entries() == count + 1);
    CHECK(fcntl(output.fd, F_GETFD) == FD_CLOEXEC);
    CHECK(output_finish(&output, "profile", 7, NULL) == FAULT_NONE);
    CHECK(holds("new", "profile") && entries() == count + 1);
    CHECK(mode_of("new") == 0600);
    output_close(&output);
    CHECK(holds("new", "profile") && entries() == count + 1);
    output_close(&output);
    umask(022);
}

/* Writes a file, as --force does or as a new one; returns the mode that it gets. */
static mode_t mode_written(const char *file, bool replace, int mode)
{
    struct output output;

    CHECK(output_open_named(&output, path_of(file), replace, mode, NULL) == FAULT_NONE);
    CHECK(output_finish(&output, "profile", 7, NULL) == FAULT_NONE);
    output_close(&output);
    return mode_of(file);
}

/* Nobody else reads a profile, unless the operator says so; a file of another user says nothing. */
static void test_modes(void)
{
    umask(0);
    CHECK(mode_written("mode", false, OUTPUT_MODE_UNSET) == 0600);
    CHECK(chmod(path_of("mode"), 0644) == 0);
    CHECK(mode_written("mode", true, OUTPUT_MODE_UNSET) == 0644);
    CHECK(mode_written("mode", true, 0640) == 0640);
    CHECK(chmod(path_of("mode"), 04400) == 0);
    CHECK(mode_written("mode", true, OUTPUT_MODE_UNSET) == 0400);
    if (geteuid() == 0 && chown(path_of("mode"), 1, 1) == 0 && chmod(path_of("mode"), 0666) == 0)
        CHECK(mode_written("mode", true, OUTPUT_MODE_UNSET) == 0600);
    CHECK(mode_written("all", false, 0666) == 0666);
    umask(0277);
    CHECK(mode_written("less", false, OUTPUT_MODE_UNSET) == 0400);
    umask(022);
    CHECK(mode_written("masked", false, 0666) == 0644);
    CHECK(mode_written("masked", true, OUTPUT_MODE_UNSET) == 0644);
}

static void test_abandoned(void)
{
    struct output output;
    unsigned count = entries();

    CHECK(output_open(&output, path_of("never"), NULL) == FAULT_NONE);
    output_close(&output);
    CHECK(absent("never") && entries() == count && output.fd == -1);
    output_close(&output);
}

/* The former content stays until the file is complete. */
static void test_existing(void)
{
    struct output output;
    unsigned count = entries() + 1;

    CHECK(tree_write(&tree, "old", "former"));
    CHECK(output_open(&output, path_of("old"), NULL) == FAULT_NONE);
    CHECK(holds("old", "former"));
    output_close(&output);
    CHECK(holds("old", "former") && entries() == count);
    CHECK(output_open(&output, path_of("old"), NULL) == FAULT_NONE);
    CHECK(output_finish(&output, "", 0, NULL) == FAULT_NONE);
    output_close(&output);
    CHECK(holds("old", "") && entries() == count);
}

static bool is_link(const char *file)
{
    struct stat st;
    return lstat(path_of(file), &st) == 0 && S_ISLNK(st.st_mode);
}

static bool write_through(const char *file, const char *text)
{
    struct output output;
    bool good = output_open(&output, path_of(file), NULL) == FAULT_NONE &&
                output_finish(&output, text, strlen(text), NULL) == FAULT_NONE;

    output_close(&output);
    return good;
}

static void test_link(void)
{
    CHECK(tree_write(&tree, "sub/real", "former"));
    CHECK(tree_link(&tree, "link", "sub/real"));
    CHECK(write_through("link", "through"));
    CHECK(is_link("link") && holds("sub/real", "through") && holds("link", "through"));
}

/* A link stays a link, also if its file does not exist yet. */
static void test_dangling_link(void)
{
    CHECK(tree_link(&tree, "dangling", "sub/later"));
    CHECK(write_through("dangling", "made"));
    CHECK(is_link("dangling"));
    CHECK(holds("sub/later", "made"));
}

/* The longest name that the file system accepts: a temporary name must not be longer. */
static void test_long_name(void)
{
    char file[256];

    memset(file, 'n', 255);
    file[255] = '\0';
    CHECK(write_through(file, "long"));
    CHECK(holds(file, "long"));
}

/* Refused at once, before the target is touched. */
static void refused(const char *path, int err)
{
    struct output output;
    struct fault fault = {0};

    CHECK(output_open(&output, path, &fault) == FAULT_OUTPUT);
    if (!CHECK(fault.code == FAULT_OUTPUT && fault.err == err))
        fprintf(stderr, "  '%s': %s\n", path, strerror(fault.err));
    output_close(&output);
}

static void test_refused(void)
{
    unsigned count = entries();

    refused(path_of("none/file"), ENOENT);
    refused(path_of("new/file"), ENOTDIR);
    refused(path_of("none/"), ENOENT);
    refused(tree.path, EISDIR);
    CHECK(entries() == count);
}

/* An empty name is invalid, as for open(2). */
static void test_empty_name(void)
{
    char *former = getcwd(NULL, 0);

    CHECK(chdir(tree.path) == 0);
    refused("", ENOENT);
    CHECK(former && chdir(former) == 0);
    free(former);
}

/* Runs in a child that is an ordinary user; its checks count. */
static bool as_nobody(void (*test)(void))
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        checks_failed = 0;
        if (geteuid() == 0 && (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)))
            _exit(2);
        test();
        _exit(checks_failed != 0);
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void test_read_only(void)
{
    refused(path_of("locked/file"), EACCES);
    refused(path_of("locked/existing"), EACCES);
}

static void test_permissions(void)
{
    CHECK(tree_write(&tree, "locked/existing", "former"));
    CHECK(chmod(tree.path, 0755) == 0 && chmod(path_of("locked"), 0555) == 0);
    CHECK(as_nobody(test_read_only));
    CHECK(holds("locked/existing", "former"));
    CHECK(chmod(path_of("locked"), 0755) == 0);
}

static void test_full_device(void)
{
    struct output output;
    struct fault fault = {0};

    CHECK(output_open(&output, "/dev/full", &fault) == FAULT_NONE);
    CHECK(output_finish(&output, "x", 1, &fault) == FAULT_OUTPUT);
    CHECK(fault.err == ENOSPC && strcmp(fault.what, "/dev/full") == 0);
    output_close(&output);
    CHECK(output_open(&output, "/dev/null", &fault) == FAULT_NONE);
    CHECK(output_finish(&output, "x", 1, &fault) == FAULT_NONE);
    output_close(&output);
}

/* A regular file without enough space: nothing of it is visible. */
static void cut_short(void)
{
    const struct rlimit limit = {65536, 65536};
    static char bytes[100000];
    struct output output;
    struct fault fault = {0};

    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK(output_open(&output, path_of("open/old"), NULL) == FAULT_NONE);
    CHECK(output_finish(&output, bytes, sizeof bytes, &fault) == FAULT_OUTPUT);
    CHECK(fault.err == EFBIG && holds("open/old", "former"));
    output_close(&output);
}

static void test_cut_short(void)
{
    CHECK(tree_write(&tree, "open/old", "former"));
    CHECK(chmod(path_of("open"), 0777) == 0);
    CHECK(as_nobody(cut_short));
    CHECK(holds("open/old", "former"));
    DIR *dir = opendir(path_of("open"));
    unsigned count = 0;
    while (dir && readdir(dir))
        count++;
    CHECK(count == 3);
    if (dir)
        closedir(dir);
}

/* A directory takes the name in the meantime. */
static void test_rename_fails(void)
{
    struct output output;
    struct fault fault = {0};
    unsigned count = entries();

    CHECK(output_open(&output, path_of("taken"), NULL) == FAULT_NONE);
    CHECK(mkdir(path_of("taken"), 0755) == 0);
    CHECK(output_finish(&output, "x", 1, &fault) == FAULT_OUTPUT && fault.err == EISDIR);
    output_close(&output);
    CHECK(entries() == count + 1);
}

static void *read_fifo(void *text)
{
    int fd = open(path_of("fifo"), O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, text, 63);

    ((char *)text)[n > 0 ? n : 0] = '\0';
    close(fd);
    return NULL;
}

/* A FIFO stays one, and is written directly. */
static void test_fifo(void)
{
    struct output output;
    pthread_t reader;
    char text[64] = "", path[TREE_PATH_MAX];
    struct stat st;

    CHECK(mkfifo(tree_name(&tree, "fifo", path), 0600) == 0);
    if (!CHECK(pthread_create(&reader, NULL, read_fifo, text) == 0))
        return;
    CHECK(output_open(&output, path, NULL) == FAULT_NONE && !output.temporary);
    CHECK(output_finish(&output, "streamed", 8, NULL) == FAULT_NONE);
    output_close(&output);
    pthread_join(reader, NULL);
    CHECK(strcmp(text, "streamed") == 0);
    CHECK(stat(path, &st) == 0 && S_ISFIFO(st.st_mode));
}

static void *read_fifo_later(void *text)
{
    usleep(200000);
    return read_fifo(text);
}

static void tick(int signo)
{
    (void)signo;
}

/*
 * The reader comes a moment later. Until then the deadline's timer fires every 50 ms, without
 * SA_RESTART.
 */
static void test_late_reader(void)
{
    const struct itimerval every = {{0, 50000}, {0, 50000}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = tick};
    struct output output;
    struct fault fault = {0};
    pthread_t reader;
    char text[64] = "", path[TREE_PATH_MAX];

    tree_name(&tree, "fifo", path);
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    pthread_sigmask(SIG_BLOCK, &alarms, NULL); /* only this thread gets the timer's signals */
    if (!CHECK(pthread_create(&reader, NULL, read_fifo_later, text) == 0))
        return;
    pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    CHECK(output_open(&output, path, &fault) == FAULT_NONE);
    setitimer(ITIMER_REAL, &never, NULL);
    if (output.fd < 0) /* otherwise the reader waits for ever */
        output.fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(output_finish(&output, "late", 4, NULL) == FAULT_NONE);
    output_close(&output);
    pthread_join(reader, NULL);
    CHECK(strcmp(text, "late") == 0);
}

/* A pipe whose reader has closed it. */
static void test_broken_pipe(void)
{
    struct output output;
    struct fault fault = {0};
    int pipes[2], former = dup(STDOUT_FILENO);

    signal(SIGPIPE, SIG_IGN);
    fflush(stdout);
    CHECK(pipe(pipes) == 0);
    dup2(pipes[1], STDOUT_FILENO);
    CHECK(output_open(&output, "-", NULL) == FAULT_NONE);
    close(pipes[0]);
    CHECK(output_finish(&output, "x", 1, &fault) == FAULT_OUTPUT && fault.err == EPIPE);
    CHECK(strcmp(fault.what, "stdout") == 0);
    output_close(&output);
    dup2(former, STDOUT_FILENO);
    close(former);
    close(pipes[1]);
}

static void test_stdout(void)
{
    struct output output;
    char text[16] = "";
    int pipes[2], former = dup(STDOUT_FILENO);

    fflush(stdout);
    CHECK(pipe(pipes) == 0);
    dup2(pipes[1], STDOUT_FILENO);
    CHECK(output_open(&output, "-", NULL) == FAULT_NONE);
    CHECK(output_finish(&output, "profile", 7, NULL) == FAULT_NONE);
    output_close(&output);
    CHECK(fcntl(STDOUT_FILENO, F_GETFD) >= 0); /* stdout itself stays open */
    dup2(former, STDOUT_FILENO);
    close(former);
    close(pipes[1]);
    CHECK(read(pipes[0], text, sizeof text) == 7 && strcmp(text, "profile") == 0);
    close(pipes[0]);
}

static void test_stdout_check(void)
{
    struct fault fault = {0};
    int former, full = open("/dev/full", O_WRONLY | O_CLOEXEC);

    fflush(stdout);
    former = dup(STDOUT_FILENO);
    CHECK(stdout_check(&fault) == FAULT_NONE);
    dup2(full, STDOUT_FILENO);
    printf("a line\n");
    CHECK(stdout_check(&fault) == FAULT_OUTPUT && fault.err == ENOSPC);
    dup2(former, STDOUT_FILENO);
    clearerr(stdout);
    close(former);
    close(full);
}

/* Prints while no byte fits, then while there is space. */
static bool print_after_failure(void)
{
    struct fault first = {0}, second = {0};
    int file = memfd_create("stdout", MFD_CLOEXEC);
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

    stdout_init();
    dup2(full, STDOUT_FILENO);
    printf("{\"begun\": ");
    bool failed = stdout_check(&first) == FAULT_OUTPUT && first.err == ENOSPC;
    dup2(file, STDOUT_FILENO);
    printf("{\"error\": 1}\n");
    bool still = stdout_check(&second) == FAULT_OUTPUT && second.err == ENOSPC;
    return failed && still && lseek(file, 0, SEEK_END) == 0;
}

/* In a child: replaces its stdout. */
static void test_nothing_after_a_failure(void)
{
    int status = 1;

    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(!print_after_failure());
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

/* ---- a stream that ends early ---- */

static volatile sig_atomic_t counted;

static void count_signal(int signo)
{
    (void)signo;
    counted++;
}

/* Writes more to a pipe than it holds; returns the error. */
static int write_stream(int pipe_end, size_t len)
{
    static char bytes[64 << 10];
    struct output output = {.fd = pipe_end};
    FILE *stream = output_stream(&output);

    for (size_t done = 0; CHECK(stream) && done < len && !ferror(stream); done += sizeof bytes)
        fwrite(bytes, 1, sizeof bytes, stream);
    if (stream)
        fclose(stream);
    return output.err;
}

static void *read_slowly(void *end)
{
    char bytes[4096];

    usleep(50000);
    while (read(*(int *)end, bytes, sizeof bytes) > 0)
        ;
    return NULL;
}

/* A signal ends the wait for a reader; one that came before does not. So does the deadline, but
 * not by the time that the reader takes. */
static void test_stream_ends(void)
{
    struct sigaction action = {.sa_handler = count_signal}, former;
    const struct itimerval soon = {.it_value = {0, 50000}};
    pthread_t reader;
    int ends[2];

    counted = 1;
    interruptions_count_in(&counted);
    CHECK(pipe(ends) == 0 && sigaction(SIGALRM, &action, &former) == 0);
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    CHECK(write_stream(ends[1], 1 << 20) == EINTR && counted == 2);
    CHECK(interruptions_end_at(1) == UINT64_MAX && write_stream(ends[1], 1) == ETIME);
    CHECK(interruptions_end_at(clock_now() + 20000000u) < clock_now());
    CHECK(pthread_create(&reader, NULL, read_slowly, &ends[0]) == 0);
    CHECK(write_stream(ends[1], 128 << 10) == 0);
    CHECK(interruptions_end_at(UINT64_MAX) != UINT64_MAX);
    close(ends[1]);
    CHECK(pthread_join(reader, NULL) == 0);
    close(ends[0]);
    sigaction(SIGALRM, &former, NULL);
    counted = 0;
}

/* ---- new files ---- */

static bool no_renameat2, no_linkat;

/* Replaces libc's: some file systems do not support it. */
int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    if (no_renameat2) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

/* Replaces libc's as well. */
int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    if (no_linkat) {
        errno = EPERM;
        return -1;
    }
    return (int)syscall(SYS_linkat, from_dir, from, to_dir, to, flags);
}

static bool make_new(const char *file, bool may_number, const char *text, const char *wanted)
{
    struct output output;
    struct fault fault = {0};
    bool good = output_open_new(&output, path_of(file), may_number, &fault) == FAULT_NONE &&
                output_finish(&output, text, strlen(text), &fault) == FAULT_NONE &&
                strcmp(output.path, path_of(wanted)) == 0;

    output_close(&output);
    return good || (fault.code == FAULT_OUTPUT && fault.err == EEXIST && !wanted);
}

static void test_made_anew(void)
{
    unsigned count = entries();

    CHECK(make_new("a.pb.gz", false, "first", "a.pb.gz"));
    CHECK(make_new("a.pb.gz", false, "second", NULL));
    CHECK(holds("a.pb.gz", "first") && entries() == count + 1);
    CHECK(make_new("a.pb.gz", true, "second", "a-1.pb.gz"));
    CHECK(make_new("a.pb.gz", true, "third", "a-2.pb.gz"));
    CHECK(holds("a.pb.gz", "first") && holds("a-1.pb.gz", "second") && holds("a-2.pb.gz", "third"));
    CHECK(entries() == count + 3);
}

/* The name is taken while the profile is made: it gets a number, and nothing is lost. */
static void test_taken_meanwhile(void)
{
    struct output output;
    unsigned count = entries();

    CHECK(output_open_new(&output, path_of("b.heap"), false, NULL) == FAULT_NONE);
    CHECK(tree_write(&tree, "b.heap", "theirs"));
    CHECK(tree_link(&tree, "b-1.heap", "nowhere"));
    CHECK(output_finish(&output, "ours", 4, NULL) == FAULT_NONE);
    CHECK(strcmp(output.path, path_of("b-2.heap")) == 0);
    output_close(&output);
    CHECK(holds("b.heap", "theirs") && holds("b-2.heap", "ours") && is_link("b-1.heap"));
    CHECK(absent("nowhere") && entries() == count + 3);
}

static void test_named_late(void)
{
    struct output output;

    CHECK(output_open_new(&output, path_of("early.heap"), true, NULL) == FAULT_NONE);
    CHECK(output_name(&output, path_of("late.heap")));
    CHECK(output_finish(&output, "late", 4, NULL) == FAULT_NONE);
    output_close(&output);
    CHECK(absent("early.heap") && holds("late.heap", "late"));
}

/* In a sticky directory another user takes the name while the profile is made. */
static void test_taken_by_another(void)
{
    struct output output;
    struct fault fault = {0};

    if (geteuid() != 0) /* only root can make another user's file */
        return;
    CHECK(tree_write(&tree, "sticky/other", "") && chmod(path_of("sticky"), 01777) == 0);
    CHECK(output_open(&output, path_of("sticky/x"), NULL) == FAULT_NONE);
    CHECK(tree_write(&tree, "sticky/x", "theirs") && chown(path_of("sticky/x"), 4242, 4242) == 0);
    CHECK(output_finish(&output, "ours", 4, &fault) == FAULT_OUTPUT_OTHERS);
    CHECK(strstr(fault.what, "user 4242") && holds("sticky/x", "theirs"));
    output_close(&output);
    CHECK(make_new("sticky/x", true, "ours", "sticky/x-1")); /* nothing is replaced */
    CHECK(output_open(&output, path_of("sticky/y"), NULL) == FAULT_NONE);
    CHECK(tree_write(&tree, "sticky/y", "mine as well"));
    CHECK(output_finish(&output, "ours", 4, &fault) == FAULT_NONE && holds("sticky/y", "ours"));
    output_close(&output);
}

/* A directory that is moved while the profile is made, with a link in its place. */
static void test_moved_directory(void)
{
    struct output output;
    char from[TREE_PATH_MAX], to[TREE_PATH_MAX];

    CHECK(tree_write(&tree, "first/other", "") && tree_write(&tree, "second/x", "former"));
    CHECK(output_open(&output, path_of("first/x"), NULL) == FAULT_NONE);
    CHECK(rename(tree_name(&tree, "first", from), tree_name(&tree, "moved", to)) == 0);
    CHECK(tree_link(&tree, "first", "second"));
    CHECK(output_finish(&output, "ours", 4, NULL) == FAULT_NONE);
    output_close(&output);
    CHECK(holds("moved/x", "ours") && holds("second/x", "former"));
}

static bool is_directory(const char *path, const char *wanted)
{
    int fd = outfile_directory(path);
    struct stat st, other;
    bool same = fd >= 0 && fstat(fd, &st) == 0 && stat(wanted, &other) == 0 &&
                st.st_dev == other.st_dev && st.st_ino == other.st_ino;

    if (!same)
        fprintf(stderr, "  %s: %s\n", path, fd < 0 ? strerror(-fd) : "another one");
    if (fd >= 0)
        close(fd);
    return same;
}

/* The ways to the same directory: that one is read, never one above it. */
static void test_directory(void)
{
    static const char *const ends[] = {"", "/", "/."};
    char path[2 * TREE_PATH_MAX], *former = getcwd(NULL, 0);

    CHECK(tree_write(&tree, "inner/other", "") && tree_link(&tree, "to-inner", "inner"));
    CHECK(former && chdir(path_of("inner")) == 0);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        snprintf(path, sizeof path, "%s/inner%s", tree.path, ends[i]);
        CHECK(is_directory(path, path_of("inner")));
        snprintf(path, sizeof path, "/proc/self/root%s/inner%s", tree.path, ends[i]);
        CHECK(is_directory(path, path_of("inner")));
        snprintf(path, sizeof path, "/proc/self/root%s/to-inner%s", tree.path, ends[i]);
        CHECK(is_directory(path, path_of("inner")));
        snprintf(path, sizeof path, "/proc/self/cwd%s", ends[i]);
        CHECK(is_directory(path, path_of("inner")));
        snprintf(path, sizeof path, "/proc/self/root%s", ends[i]);
        CHECK(is_directory(path, "/"));
    }
    CHECK(is_directory(".", path_of("inner")) && is_directory("..", tree.path));
    CHECK(outfile_directory(path_of("inner/other")) == -ENOTDIR);
    snprintf(path, sizeof path, "/proc/self/root%s/inner/other", tree.path);
    CHECK(outfile_directory(path) == -ENOTDIR);
    CHECK(former && chdir(former) == 0);
    free(former);
}

/* A file that is not regular is written, and keeps its name. */
static void test_new_device(void)
{
    struct output output;

    CHECK(output_open_new(&output, "/dev/null", false, NULL) == FAULT_NONE);
    CHECK(output_name(&output, "/dev/other") && strcmp(output.path, "/dev/null") == 0);
    CHECK(output_finish(&output, "x", 1, NULL) == FAULT_NONE);
    output_close(&output);
}

int main(void)
{
    if (!CHECK(tree_make(&tree)))
        return check_result();
    umask(022);
    test_new_file();
    test_modes();
    test_abandoned();
    test_existing();
    test_link();
    test_dangling_link();
    test_long_name();
    test_refused();
    test_empty_name();
    test_permissions();
    test_full_device();
    test_cut_short();
    test_rename_fails();
    test_fifo();
    test_late_reader();
    test_broken_pipe();
    test_stdout();
    test_stdout_check();
    test_nothing_after_a_failure();
    test_stream_ends();
    for (int i = 0; i < 3; i++) {
        tree_remove(&tree);
        CHECK(tree_make(&tree));
        no_renameat2 = i > 0;
        no_linkat = i > 1;
        test_made_anew();
        test_taken_meanwhile();
        test_named_late();
        test_taken_by_another();
    }
    test_new_device();
    test_moved_directory();
    test_directory();
    tree_remove(&tree);
    return check_result();
}
