#include "cli/message.h"
#include "base/json.h"
#include "base/text.h"
#include "base/util.h"
#include "cli/fault_table.h"
#include "cli/faults.h"
#include "cli/remedy.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LINE_SIZE = MESSAGE_LINE };

/* For message_usage_json. */
static char last_message[LINE_SIZE];
static bool json_printed;

void message(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(last_message, sizeof last_message, fmt, ap);
    va_end(ap);
    fputs("jeattach: ", stderr);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

const char *message_clean(const char *text, char *out, size_t size)
{
    size_t used = 0;
    bool shown;

    for (size_t n; *text && used < size - 1; text += n) {
        n = text_unit(text, &shown);
        if (shown && n > size - 1 - used) /* never part of a character */
            break;
        if (shown)
            memcpy(out + used, text, n);
        else
            out[used] = '?';
        used += shown ? n : 1;
    }
    out[used] = '\0';
    return out;
}

/* mallctl returns errno values, with its own meanings (jemalloc(3)). */
static const char *mallctl_error_text(int rc)
{
    switch (rc) {
    case 0:
        return "";
    case ENOENT:
        return ": this version or build has no such name";
    case EPERM:
        return ": it cannot be written, or cannot be read";
    case EINVAL:
        return ": the value has the wrong size";
    case EAGAIN:
        return ": out of memory, or this thread cannot profile";
    case EFAULT:
        return ": jemalloc could not do it, although no system call failed (EFAULT)";
    default:
        return ": unknown return code";
    }
}

#define line_append(line, ...) text_append(line, LINE_SIZE, __VA_ARGS__)

static const char *yama_text(int scope)
{
    switch (scope) {
    case 1:
        return "only its ancestors, a tracer that it has named (PR_SET_PTRACER) and holders of "
               "CAP_SYS_PTRACE may attach";
    case 2:
        return "only holders of CAP_SYS_PTRACE may attach";
    case 3:
        return "nobody may attach";
    default:
        return "it restricts who may attach";
    }
}

/* The values of directives; remedy may be NULL for a template without any of cli/remedy.h. */
struct expansion {
    const struct subject *subject;
    const struct fault *fault;
    const struct remedy *remedy;
};

/* A process as an argument of the tool, or the choice of a search. */
static void append_process(char *line, const struct subject *subject)
{
    char clean[LINE_SIZE / 2];

    if (subject->pid) {
        line_append(line, "%d", subject->pid);
        return;
    }
    line_append(line, "%s%s", subject->core ? "--core " : "",
                message_clean(subject->name ? subject->name : "PID", clean, sizeof clean));
}

/* "a/b/c": a/b, quoted for a shell if it needs that. */
static void append_directory(char *line, const char *path)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "%+,-./:=@_";
    const char *slash = strrchr(path, '/');
    size_t len = slash && slash > path ? (size_t)(slash - path) : 1;
    bool quoted = strspn(path, plain) < len;
    char text[LINE_SIZE], clean[LINE_SIZE];

    if (!slash) {
        line_append(line, ".");
        return;
    }
    snprintf(text, sizeof text, "%.*s", (int)len, path);
    line_append(line, "%s", quoted ? "'" : "");
    for (const char *p = message_clean(text, clean, sizeof clean); *p; p++)
        line_append(line, "%s", *p == '\'' ? "'\\''" : (char[]){*p, '\0'});
    line_append(line, "%s", quoted ? "'" : "");
}

static void append_directive(char *line, char directive, const struct expansion *from)
{
    const struct fault *fault = from->fault;
    const struct remedy *remedy = from->remedy;
    const char *variable = from->subject->variable;
    char clean[LINE_SIZE / 2 > sizeof fault->what ? LINE_SIZE / 2 : sizeof fault->what];

    switch (directive) {
    case 'W':
        line_append(line, "%s", message_clean(fault->what, clean, sizeof clean));
        break;
    case 'E':
        if (fault->err == 0)
            break;
        line_append(line, ": %s (%s)",
                    strerrordesc_np(fault->err) ? strerrordesc_np(fault->err) : "unknown error",
                    strerrorname_np(fault->err) ? strerrorname_np(fault->err) : "?");
        break;
    case 'D':
        append_directory(line, fault->what);
        break;
    case 'P':
        append_process(line, from->subject);
        break;
    case 'T':
        line_append(line, "%d", fault->pid);
        break;
    case 'N':
        if (fault->pid)
            line_append(line, ": %d", fault->pid);
        break;
    case 'V':
        line_append(line, "%s", variable && *variable ? variable : "MALLOC_CONF");
        break;
    case 'Y':
        line_append(line, "%s", yama_text(fault->reason));
        break;
    case 'R':
        line_append(line, "%s", mallctl_error_text(fault->err));
        break;
    case 'L':
        line_append(line, "%s", remedy_library(from->subject->pid, clean, LINE_SIZE / 2));
        break;
    case 'I':
        line_append(line, "%s", remedy ? remedy->id : "");
        break;
    case 'U':
        if (remedy)
            line_append(line, "%d", (int)remedy->uid);
        break;
    default:
        if (remedy)
            line_append(line, "%s", message_clean(remedy->program, clean, LINE_SIZE / 2));
        break;
    }
}

static void expand_template(char *line, const char *template, const struct expansion *from)
{
    line[0] = '\0';
    for (const char *p = template; *p; p++)
        if (*p == '%' && p[1])
            append_directive(line, *++p, from);
        else
            line_append(line, "%c", *p);
}

static void write_headline(char *line, const struct subject *subject, const struct fault *fault)
{
    char clean[256] = "", what[sizeof fault->what];

    if (subject->name)
        message_clean(subject->name, clean, sizeof clean);
    if (fault_is_output(fault->code))
        snprintf(line, LINE_SIZE, "cannot write the output");
    else if (fault->code == FAULT_NO_MATCH ||
             (fault->code == FAULT_NO_ALLOCATOR && !subject->pid && !subject->core))
        snprintf(line, LINE_SIZE, "no process%s matches %s",
                 subject->any_allocator ? "" : " with jemalloc", clean);
    else if (fault->code == FAULT_SEVERAL)
        snprintf(line, LINE_SIZE, "%s matches %s", clean,
                 message_clean(fault->what, what, sizeof what));
    else if (!subject->pid)
        snprintf(line, LINE_SIZE, "cannot %s%s%s", subject->verb, *clean ? " " : "", clean);
    else if (*clean && subject->ns_pid && subject->ns_pid != subject->pid)
        snprintf(line, LINE_SIZE, "cannot %s %d (%s, pid %d in its container)", subject->verb,
                 subject->pid, clean, subject->ns_pid);
    else if (*clean)
        snprintf(line, LINE_SIZE, "cannot %s %d (%s)", subject->verb, subject->pid, clean);
    else
        snprintf(line, LINE_SIZE, "cannot %s %d", subject->verb, subject->pid);
}

/* True if a call is not possible, but memory may be readable. */
static bool concerns_call(fault_code code)
{
    static const fault_code codes[] = {
        FAULT_TRACED,      FAULT_TOOL_TRACED, FAULT_DENIED_SECCOMP, FAULT_FROZEN,
        FAULT_STOPPED,     FAULT_NO_STOP,     FAULT_NO_SAFE_POINT,  FAULT_NO_UNWINDER,
        FAULT_NO_HEADROOM, FAULT_NO_CPU,      FAULT_NO_SCRATCH,     FAULT_WITHHELD,
        FAULT_UNSUPPORTED, FAULT_HOOKS,       FAULT_OCCUPIED,       FAULT_STOPS_THREADS,
    };

    for (size_t i = 0; i < ARRAY_LEN(codes); i++)
        if (codes[i] == code)
            return true;
    return false;
}

/* explain and leak serve every process, and page faults need no profiling. */
static void append_any_allocator(char *line, const struct subject *subject, fault_code code)
{
    const struct expansion from = {.subject = subject};
    const char *template = "; to see what grows in it without profiling: jeattach leak %P";
    char commands[LINE_SIZE];

    if (code == FAULT_NO_ALLOCATOR)
        template = subject->pid ? "; to see where its memory is: jeattach explain %P; what grows "
                                  "in it: jeattach leak %P"
                                : "; to see where their memory is: jeattach explain --all %P; what "
                                  "grows in them: jeattach leak --all %P";
    else if (!fault_lacks_profiling(code) || !subject->pid)
        return;
    if (subject->core)
        return;
    expand_template(commands, template, &from);
    line_append(line, "%s", commands);
}

void message_words(const struct subject *subject, const struct fault *fault,
                   struct fault_words *words)
{
    const struct fault_row *row = fault_row(fault->code);
    struct remedy remedy;
    const struct expansion from = {subject, fault, &remedy};
    const char *fix;

    remedy_look(&remedy, subject->pid);
    fix = remedy_template(&remedy, fault);
    words->exit = row->exit;
    words->fix[0] = '\0';
    write_headline(words->what, subject, fault);
    expand_template(words->cause, row->cause, &from);
    if (fix || row->fix)
        expand_template(words->fix, fix ? fix : row->fix, &from);
    append_any_allocator(words->fix, subject, fault->code);
    if (subject->samples_stay && fault_is_output(fault->code)) {
        line_append(words->fix, "%sthe process still has the samples: jeattach dump -o FILE %d",
                    words->fix[0] ? "; " : "", subject->pid);
    }
    if (subject->instead && concerns_call(fault->code)) {
        line_append(words->fix, "%s%s", words->fix[0] ? "; or " : "", subject->instead);
    }
}

void message_json(struct json *json, const struct fault *fault, const struct fault_words *words)
{
    char seen[sizeof fault->what];

    JSON_MEMBERS(json, TEXT("code", fault_row(fault->code)->name), NUMBER("exit", words->exit),
                 TEXT("what", words->what), TEXT("cause", words->cause),
                 TEXT_OR_NULL("seen", message_clean(fault->what, seen, sizeof seen)),
                 TEXT_OR_NULL("fix", words->fix));
}

int message_fault(const struct subject *subject, const struct fault *fault)
{
    struct fault_words words;
    struct json json;

    message_words(subject, fault, &words);
    if (fault->code == FAULT_OUTPUT && fault->reason == OUTPUT_READER_LEFT)
        return words.exit;
    message("%s", words.what);
    fprintf(stderr, "  cause: %s\n", words.cause);
    if (words.fix[0])
        fprintf(stderr, "  fix:   %s\n", words.fix);
    if (!subject->json)
        return words.exit;

    json_printed = true;
    json_begin(&json, stdout);
    json_object_begin(&json, "error");
    message_json(&json, fault, &words);
    JSON_MEMBERS(&json, NUMBER_IF(subject->pid, "pid", subject->pid),
                 TEXT_OR_NULL("name", subject->name));
    json_object_end(&json);
    json_end(&json);
    return words.exit;
}

void message_usage_json(const char *verb)
{
    char line[LINE_SIZE];
    struct json json;

    if (json_printed)
        return;
    json_printed = true;
    json_begin(&json, stdout);
    json_object_begin(&json, "error");
    JSON_MEMBERS(&json, TEXT("code", "usage"), NUMBER("exit", EXIT_USAGE));
    snprintf(line, sizeof line, "cannot parse the arguments of jeattach%s%s", verb ? " " : "",
             verb ? verb : "");
    JSON_MEMBERS(&json, TEXT("what", line), TEXT("cause", last_message), NOTHING("seen"));
    snprintf(line, sizeof line, "jeattach %s%s--help", verb ? verb : "", verb ? " " : "");
    JSON_MEMBERS(&json, TEXT("fix", line), NOTHING("pid"), NOTHING("name"));
    json_object_end(&json);
    json_end(&json);
}

const char *message_process(const char *name, int pid, char out[PROCESS_TEXT])
{
    char clean[PROCESS_TEXT - 16];

    snprintf(out, PROCESS_TEXT, "%s[%d]", message_clean(name, clean, sizeof clean), pid);
    return out;
}

const char *message_cause(const struct subject *subject, const struct fault *fault, char *out,
                          size_t size)
{
    const struct expansion from = {subject, fault, NULL};
    char line[LINE_SIZE];

    expand_template(line, fault_row(fault->code)->cause, &from);
    snprintf(out, size, "%s", line);
    return out;
}

const char *message_expand(const struct subject *subject, const char *template, char *out,
                           size_t size)
{
    const struct fault none = {.code = FAULT_NONE};
    const struct expansion from = {subject, &none, NULL};
    char line[LINE_SIZE];

    expand_template(line, template, &from);
    snprintf(out, size, "%s", line);
    return out;
}
