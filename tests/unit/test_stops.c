/* What stops have shown, and what they may cost, without any stop. */
#include "check.h"
#include "inject/stops.h"
#include "proc_text.h"
#include "tree.h"

enum { PID = 4242, PC = 0x401000, SP = 0x7ffe0000, SECOND_NS = 1000000000 };

static struct tree tree;
static struct procfs proc;
static struct target target = {.proc = &proc, .pid = PID, .pidfd = -1};
static const struct thread thread = {.tid = PID, .state = 'S'};
static const struct proc_syscall asleep = {.asleep = true, .nr = 0, .sp = SP, .pc = PC};
static const struct evidence words = {.proof = PROOF_STACK, .address = 1, .unfollowed = true},
                             frame = {.proof = PROOF_STACK, .address = 1, .frames = 4},
                             foreign = {.proof = PROOF_FOREIGN_STACK},
                             code = {.proof = PROOF_PC, .address = PC};
static struct stops stops;

/* How often it has slept; 0: the kernel does not say. */
static void write_sleeps(unsigned times)
{
    char text[128] = "Name:\ta\n", name[64];

    if (times)
        snprintf(text, sizeof text, "Name:\ta\nvoluntary_ctxt_switches:\t%u\n", times);
    snprintf(name, sizeof name, "%d/task/%d/status", PID, PID);
    CHECK(tree_write(&tree, name, text));
}

/* A record of a thread that slept `times` times and was then stopped once. */
static struct stop_record *stopped_once(unsigned times, const struct evidence *evidence)
{
    struct stop_record *record;

    memset(&stops, 0, sizeof stops);
    record = stops_of(&stops, PID);
    write_sleeps(times);
    stops_look(record, &thread, &target, &asleep);
    stops_charge(&stops, record, 0, 0);
    stops_note(record, evidence, PC, SP);
    return record;
}

static bool is_unchanged(struct stop_record *record, unsigned times)
{
    write_sleeps(times);
    return stops_is_unchanged(record, &thread, &target, &asleep);
}

static void test_unchanged(void)
{
    struct stop_record *record = stopped_once(100, &foreign);
    struct proc_syscall now = asleep;

    CHECK(is_unchanged(record, 101) && is_unchanged(record, 102));
    CHECK(!is_unchanged(record, 103) && !is_unchanged(record, 0));
    write_sleeps(102);
    now.sp -= 8;
    CHECK(!stops_is_unchanged(record, &thread, &target, &now));
    now = (struct proc_syscall){.nr = -1};
    CHECK(!stops_is_unchanged(record, &thread, &target, &now));
    stops_charge(&stops, record, 0, 0); /* two stops, as a second one loads the unwinder */
    CHECK(is_unchanged(record, 104) && !is_unchanged(record, 105));
}

/* What the kernel does not say, and what others may change, is looked at again. */
static void test_not_known(void)
{
    static const struct evidence synccall = {.proof = PROOF_SYNCCALL},
                                 filtered = {.proof = PROOF_FILTERED};
    struct stop_record *record = stopped_once(0, &frame);

    CHECK(!is_unchanged(record, 1) && !is_unchanged(record, 0));
    CHECK(!is_unchanged(stopped_once(100, &synccall), 102));
    CHECK(!is_unchanged(stopped_once(100, &filtered), 102));
    record = stops_of(&stops, PID + STOPS_THREADS); /* takes its place */
    CHECK(record->tid == PID + STOPS_THREADS);
}

static void test_growing_pauses(void)
{
    struct stop_record *record = stopped_once(100, &words);
    uint64_t last = 0, now;

    CHECK(record->not_before == 0);
    for (int i = 0; i < 8; i++) {
        stops_note(record, &words, PC, SP);
        now = clock_now();
        CHECK(record->not_before > last && record->not_before <= now + (1000000ull << i));
        last = record->not_before;
    }
    CHECK(last > now);
    stops_note(record, &words, PC, SP - 64); /* elsewhere */
    CHECK(record->not_before == 0);
    stops_note(record, &words, PC, SP - 64);
    stops_note(record, &code, PC, SP);
    CHECK(record->not_before == 0);
}

/* An allowance of 30 ms, then 1 % of the time, 20 us a stop at least. */
static void test_credit(void)
{
    struct stop_record *record;

    memset(&stops, 0, sizeof stops);
    record = stops_of(&stops, PID);
    CHECK(stops_until_credit(&stops) == 0);
    for (int i = 0; i < 300; i++)
        stops_charge(&stops, record, 70000, 70000);
    CHECK(stops_until_credit(&stops) == 0);
    for (int i = 0; i < 300; i++)
        stops_charge(&stops, record, 70000, 70000);
    uint64_t until = stops_until_credit(&stops);
    CHECK(until > 3ull * SECOND_NS / 2 && until <= 12ull * SECOND_NS / 5);
    stops_charge(&stops, record, 1000000, 0); /* beyond the allowance all of it counts */
    CHECK(stops_until_credit(&stops) > until + 90000000);
    stops.credit_at -= 3600ull * SECOND_NS; /* an hour later */
    CHECK(stops_until_credit(&stops) == 0);
    stops_charge(&stops, record, 40000000, 5000000); /* the tool had no CPU */
    CHECK(stops_until_credit(&stops) == 0);
    stops_charge(&stops, record, UINT64_MAX, UINT64_MAX); /* counts as 10 ms */
    stops_charge(&stops, record, UINT64_MAX, UINT64_MAX);
    stops_charge(&stops, record, UINT64_MAX, UINT64_MAX);
    until = stops_until_credit(&stops);
    CHECK(until > SECOND_NS / 2 && until < 2ull * SECOND_NS && record->stops_there == 605);
    stops.credit_at -= 3600ull * SECOND_NS;
    CHECK(stops_until_credit(&stops) == 0 && stops.credit_ns == 30000000);
}

int main(void)
{
    if (!CHECK(tree_make(&tree)) || !CHECK(procfs_open(&proc, tree.path) == 0))
        return check_result();
    test_unchanged();
    test_not_known();
    test_growing_pauses();
    test_credit();
    procfs_close(&proc);
    tree_remove(&tree);
    return check_result();
}
