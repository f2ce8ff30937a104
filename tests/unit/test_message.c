/* Messages for the operator. */
#include "base/util.h"
#include "capture.h"
#include "check.h"
#include "cli/fault_table.h"
#include "cli/faults.h"
#include "cli/message.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void test_clean(void)
{
    char out[8], all[257], cleaned[257];

    CHECK(strcmp(message_clean("plain", out, sizeof out), "plain") == 0);
    CHECK(strcmp(message_clean("a\nb\x1b[", out, sizeof out), "a?b?[") == 0);
    CHECK(strcmp(message_clean("1234567890", out, sizeof out), "1234567") == 0);
    CHECK(strcmp(message_clean("1234567890", out, 1), "") == 0);
    for (unsigned i = 1; i <= 255; i++)
        all[i - 1] = (char)i;
    all[255] = '\0';
    message_clean(all, cleaned, sizeof cleaned);
    for (unsigned i = 1; i <= 255; i++) {
        bool shown = i >= 0x20 && i < 0x7f; /* no C0, DEL, C1, and only valid UTF-8 */
        CHECK(cleaned[i - 1] == (shown ? (char)i : '?'));
    }
    CHECK(strcmp(message_clean("Ärger–😀", cleaned, sizeof cleaned), "Ärger–😀") == 0);
    CHECK(strcmp(message_clean("a\xc2\x9b"
                               "1m\u202e"
                               "b\u2028",
                               cleaned, sizeof cleaned),
                 "a?1m?b?") == 0);
    CHECK(strcmp(message_clean("abcdefÄ", out, sizeof out), "abcdef") == 0);
    CHECK(strcmp(message_clean("abcde\xc3", out, sizeof out), "abcde?") == 0);
}

/* The text of a fault; *code is its exit code. */
static const char *text_of(const struct fault *fault, const char *name, int *code, char *text,
                           size_t size)
{
    const struct subject subject = {
        .pid = 4242, .name = name, .verb = "dump", .variable = "_RJEM_MALLOC_CONF"};
    struct capture capture;

    capture_begin(&capture);
    *code = message_fault(&subject, fault);
    return capture_end(&capture, text, size);
}

/*
 * Each code has one row, one class and a name of its own, which a script may rely
 * on. (tests/faults.py: each code that a layer declares has a row.)
 */
static void test_rows(void)
{
    const struct fault_row *a, *b;
    size_t n = 0;

    for (; (a = fault_row_at(n)); n++) {
        int classes = fault_is_gone(a->code) + fault_is_transient(a->code) +
                      fault_is_absent(a->code) + fault_is_permanent(a->code) +
                      fault_is_unfinished(a->code) + fault_is_output(a->code);
        CHECK(fault_row(a->code) == a && classes <= 1 && strcmp(a->name, "failed") != 0);
        for (size_t i = 0; i < n && (b = fault_row_at(i)); i++)
            CHECK(a->code != b->code && strcmp(a->name, b->name) != 0);
    }
    CHECK(n > 60);
    CHECK(strcmp(fault_row(FAULT_DENIED_UID)->name, "denied_uid") == 0);
    CHECK(strcmp(fault_row((fault_code)10000)->name, "failed") == 0);
}

/* What a fault means for a second attempt. */
static void test_classes(void)
{
    static const fault_code gone[] = {FAULT_GONE, FAULT_ZOMBIE, FAULT_REUSED, FAULT_EXECED},
                            transient[] = {FAULT_TRACED,      FAULT_NO_STOP,       FAULT_FROZEN,
                                           FAULT_STOPPED,     FAULT_NO_SAFE_POINT, FAULT_NO_SCRATCH,
                                           FAULT_NO_UNWINDER, FAULT_NO_HEADROOM},
                            unfinished[] = {FAULT_CALL_DEADLINE, FAULT_NO_ANSWER_HELD, FAULT_LOST},
                            neither[] = {FAULT_INTERNAL, FAULT_DENIED, FAULT_UNSUPPORTED,
                                         FAULT_INTERRUPTED, FAULT_NONE};

    for (size_t i = 0; i < ARRAY_LEN(gone); i++)
        CHECK(fault_is_gone(gone[i]) && !fault_may_be_end(gone[i]));
    for (size_t i = 0; i < ARRAY_LEN(transient); i++)
        CHECK(fault_is_transient(transient[i]) && fault_may_be_end(transient[i]));
    for (size_t i = 0; i < ARRAY_LEN(unfinished); i++)
        CHECK(fault_is_unfinished(unfinished[i]) && !fault_may_be_end(unfinished[i]));
    for (size_t i = 0; i < ARRAY_LEN(neither); i++)
        CHECK(!fault_is_gone(neither[i]) && !fault_is_transient(neither[i]) &&
              !fault_is_permanent(neither[i]));
    CHECK(fault_is_permanent(FAULT_PROF_DISABLED) && !fault_may_be_end(FAULT_PROF_DISABLED));
    CHECK(fault_may_be_end(FAULT_INTERNAL) && fault_is_of_thread(FAULT_NO_UNWINDER));
    CHECK(!fault_is_of_thread(FAULT_FROZEN) && !fault_is_of_thread(FAULT_DENIED_DUMPABLE));
}

/* Each has a cause, and an exit code other than success; none leaves a directive unexpanded. */
static void test_every_fault(void)
{
    const struct fault_row *row;

    for (size_t i = 0; (row = fault_row_at(i)); i++) {
        struct fault fault = {.code = row->code, .err = EACCES, .what = "\x1b]0;x\x07", .pid = 7};
        char text[4096];
        int code;
        text_of(&fault, "na\nme", &code, text, sizeof text);
        CHECK(code > EXIT_DONE && code <= EXIT_INTERRUPTED);
        CHECK(strncmp(text, "jeattach: cannot ", 17) == 0 || row->code == FAULT_SEVERAL ||
              row->code == FAULT_NO_MATCH);
        CHECK(strstr(text, "\n  cause: ") != NULL);
        CHECK(!strchr(text, '%') && !strchr(text, '\x1b') && !strstr(text, "na\nme"));
        CHECK(text[strlen(text) - 1] == '\n');
    }
}

/* A line of a message reads as a sentence: all is filled in, and nothing was left out of it. */
static bool reads_well(const char *line)
{
    size_t n = strlen(line);

    return n && line[0] != ' ' && !strchr(" :,;(", line[n - 1]) && !strstr(line, "  ") &&
           !strstr(line, "(null)") && !strstr(line, "()") && !strchr(line, '%') &&
           !strstr(line, " ,") && !strstr(line, " ;") && !strstr(line, "::");
}

enum { REASONS = 8 }; /* more than any enum of reasons has */

/* Each row, for a process, a file and a search, with and without a name, an errno, a reason. */
static void test_every_row_reads_well(void)
{
    static const struct subject subjects[] = {
        {.pid = 4242, .name = "srv", .verb = "dump the profile of process"},
        {.pid = 4242, .ns_pid = 7, .name = "srv", .verb = "record process", .samples_stay = true},
        {.pid = 4242, .verb = "stop process", .instead = "see jeattach dump --no-call"},
        {.verb = "find", .name = "-n srv"},
        {.verb = "examine", .name = "/var/crash/core", .core = true},
    };
    static const int errors[] = {0, EACCES, ENOENT, EPERM, 1 << 20};
    const struct fault_row *row;
    struct fault_words words;

    for (size_t i = 0; (row = fault_row_at(i)); i++)
        for (size_t k = 0; k < ARRAY_LEN(subjects) * ARRAY_LEN(errors) * REASONS; k++) {
            struct fault fault = {.code = row->code,
                                  .err = errors[k / REASONS % ARRAY_LEN(errors)],
                                  .reason = (int)(k % REASONS),
                                  .what = "the detail",
                                  .pid = k % 2 ? 99 : 0};
            const struct subject *subject = &subjects[k / REASONS / ARRAY_LEN(errors)];
            bool of_search = row->code == FAULT_NO_MATCH || row->code == FAULT_SEVERAL;
            if (of_search && strcmp(subject->verb, "find") != 0)
                continue;
            message_words(subject, &fault, &words);
            bool good = reads_well(words.what) && reads_well(words.cause) &&
                        (!words.fix[0] || reads_well(words.fix)) && words.exit > EXIT_DONE;
            if (!good)
                printf("%s:\n%s|\n%s|\n%s|\n", row->name, words.what, words.cause, words.fix);
            if (!CHECK(good))
                return;
        }
}

static void test_details(void)
{
    struct fault fault;
    char text[4096];
    int code;

    fault_set(&fault, FAULT_TRACED, EPERM, "attach", "gdb");
    fault.pid = 99;
    CHECK(strstr(text_of(&fault, "srv", &code, text, sizeof text), "traced by 99 (gdb)"));
    CHECK(code == EXIT_DENIED && strstr(text, "cannot dump 4242 (srv)\n"));
    fault_set(&fault, FAULT_DUMP_OPEN, EROFS, "prof.dump", "/x.heap");
    text_of(&fault, NULL, &code, text, sizeof text);
    CHECK(strstr(text, "/x.heap: Read-only file system (EROFS)\n") && code == EXIT_REFUSED);
    CHECK(strstr(text, "cannot dump 4242\n"));
    fault_set(&fault, FAULT_PROF_DISABLED, 0, "prof", "5.3.0");
    text_of(&fault, "srv", &code, text, sizeof text);
    CHECK(strstr(text, "_RJEM_MALLOC_CONF=prof:true") && code == EXIT_NO_PROFILING);
    fault_set(&fault, FAULT_OUTPUT, 1 << 20, "write", "/out");
    text_of(&fault, "srv", &code, text, sizeof text);
    CHECK(strstr(text, "/out: unknown error (?)") && code == EXIT_OUTPUT);
}

/* Nothing is longer than its buffer. */
static void test_long(void)
{
    struct fault fault;
    char text[4096], name[1000];
    int code;

    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    fault_set(&fault, FAULT_INTERNAL, ENOMEM, "stage", "%s%s", name, name);
    CHECK(strlen(fault.what) == sizeof fault.what - 1);
    text_of(&fault, name, &code, text, sizeof text);
    CHECK(code == EXIT_INTERNAL && strstr(text, "(ENOMEM)"));
}

static void test_fault_set(void)
{
    struct fault fault = {.pid = 5};

    CHECK(fault_set(&fault, FAULT_GONE, ESRCH, "look", "thread %d", 3) == FAULT_GONE);
    CHECK(fault.code == FAULT_GONE && fault.err == ESRCH && fault.pid == 0);
    CHECK(strcmp(fault.stage, "look") == 0 && strcmp(fault.what, "thread 3") == 0);
    CHECK(fault_set(NULL, FAULT_GONE, ESRCH, "look", "x") == FAULT_GONE);
}

int main(void)
{
    test_clean();
    test_rows();
    test_classes();
    test_every_fault();
    test_every_row_reads_well();
    test_details();
    test_long();
    test_fault_set();
    return check_result();
}
