#include "cli/output/language_hint.h"
#include "base/util.h"

#include <stdio.h>
#include <string.h>

/* Each command begins with the words before the pid, and ends with those behind it. */
static const struct {
    const char *before, *behind;
    const char *shows, *needs;
} tools[HEAP_KINDS] = {
    [HEAP_JVM] = {"jcmd ", " GC.class_histogram", "how many objects of each class there are",
                  "it runs a full garbage collection first"},
    [HEAP_V8] = {"node inspect -p ", "", "its objects by constructor, with takeHeapSnapshot()",
                 "it opens the inspector of the process, which stops while the snapshot is taken"},
    [HEAP_GO] = {"go tool pprof http://HOST:PORT/debug/pprof/heap", NULL,
                 "the calls that allocated what the collector found alive",
                 "the program must serve net/http/pprof"},
    [HEAP_DOTNET] = {"dotnet-gcdump collect -p ", "", "its objects by type, and what keeps them",
                     "it runs a full garbage collection first"},
    [HEAP_PYTHON] = {"memray attach ", "", "which lines of Python allocate what stays",
                     "memray must be installed for that Python, and uses gdb or lldb"},
    [HEAP_RUBY] = {"rbtrace -p ", " -e 'require \"objspace\"; ObjectSpace.count_objects_size.to_s'",
                   "the bytes of its objects by type", "the program must have loaded rbtrace"},
};

bool language_hint(unsigned kinds, const struct target *target, struct language_hint *hint)
{
    const enum heap_kind kind = heap_kinds_language(kinds);
    char signal[16];

    memset(hint, 0, sizeof *hint);
    if (kind == HEAP_KINDS || !tools[kind].before)
        return false;
    hint->shows = tools[kind].shows;
    hint->needs = tools[kind].needs;
    if (!tools[kind].behind)
        snprintf(hint->command, sizeof hint->command, "%s", tools[kind].before);
    else
        snprintf(hint->command, sizeof hint->command, "%s%d%s", tools[kind].before,
                 (int)target->pid, tools[kind].behind);
    /* Without that option the signal would end the process. */
    if (kind == HEAP_V8 &&
        command_option(target, "--heapsnapshot-signal=SIG", "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
                       signal, sizeof signal)) {
        hint->shows = "its objects by constructor, in a file of its working directory";
        hint->needs = "it stops while the snapshot is taken";
        snprintf(hint->command, sizeof hint->command, "kill -%s %d", signal, (int)target->pid);
    }
    return true;
}

const char *language_jit_text(unsigned kinds, const struct target *target,
                              char out[LANGUAGE_JIT_TEXT])
{
    static const char *const starts[HEAP_KINDS] = {
        [HEAP_V8] = "start it with --perf-basic-prof",
        [HEAP_DOTNET] = "start it with DOTNET_PerfMapEnabled=1",
        [HEAP_RUBY] = "start it with --yjit-perf",
        [HEAP_ERLANG] = "start it with +JPperf true",
    };
    const enum heap_kind kind = heap_kinds_language(kinds);
    const int inner = (int)target_ns_pid(target);

    if (kind == HEAP_JVM)
        snprintf(out, LANGUAGE_JIT_TEXT, "%sjcmd %d Compiler.perfmap (JDK 17 or later)",
                 inner == (int)target->pid ? "run " : "run in its container: ", inner);
    else if (kind != HEAP_KINDS && starts[kind])
        snprintf(out, LANGUAGE_JIT_TEXT, "%s", starts[kind]);
    else
        return NULL;
    return out;
}

void language_hint_json(const struct language_hint *hint, bool known, const char *name,
                        struct json *json)
{
    JSON_OBJECT_IF(known, json, name, TEXT("command", hint->command), TEXT("shows", hint->shows),
                   TEXT_OR_NULL("needs", hint->needs));
}
