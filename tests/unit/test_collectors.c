/* Signals that stay unblocked, and threads that are not used, if a collector stops the world. */
#include "check.h"
#include "inject/plan.h"
#include "own.h"

#include <pthread.h>
#include <signal.h>

#define BIT(signal) (1ull << ((signal)-1))

static struct own own;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool signals_of(int32_t suspend, int32_t restart, uint64_t *signals)
{
    const int32_t numbers[] = {suspend, restart};
    const struct collector collector = {
        .name = "a collector",
        .defaults = BIT(SIGPWR) | BIT(SIGXCPU),
        .variables = {(remote_addr)(uintptr_t)&numbers[0], (remote_addr)(uintptr_t)&numbers[1]},
        .variable_count = 2,
    };

    return collector_signals(&collector, &own.memory, signals);
}

static void test_signals(void)
{
    const struct collector none = {0}, musl = {.musl = true};
    const struct collector lost = {.variables = {16}, .variable_count = 1};
    uint64_t signals = 1;

    CHECK(collector_signals(&none, &own.memory, &signals) && signals == 0);
    CHECK(collector_signals(&musl, &own.memory, &signals) && signals == BIT(34));
    CHECK(!collector_signals(&lost, &own.memory, &signals));
    CHECK(signals_of(10, 12, &signals) && signals == (BIT(10) | BIT(12)));
    CHECK(signals_of(34, 64, &signals) && signals == (BIT(34) | BIT(64)));
    CHECK(signals_of(-1, -1, &signals) && signals == (BIT(SIGPWR) | BIT(SIGXCPU)));
    CHECK(!signals_of(0, 12, &signals));
    CHECK(!signals_of(10, 65, &signals));
    CHECK(!signals_of(-2, 12, &signals));
}

static bool uses(const struct collector *collector, uint64_t mask)
{
    return collector_uses(collector, &own.target, &own.memory, getpid(), BIT(30) | BIT(24), mask);
}

static void test_masks(void)
{
    const struct collector collector = {.name = "a collector"};
    const uint64_t marker = ~(BIT(30) | BIT(24) | BIT(32) | BIT(33) | BIT(SIGKILL) | BIT(SIGSTOP));

    CHECK(!uses(&collector, 0));
    CHECK(!uses(&collector, BIT(SIGUSR1)));
    CHECK(uses(&collector, BIT(30)));
    CHECK(uses(&collector, ~0ull));
    CHECK(uses(&collector, marker));
    CHECK(!uses(&collector, marker & ~BIT(SIGTERM)));
    CHECK(!collector_uses(&collector, &own.target, &own.memory, getpid(), 0, ~0ull));
}

/* musl: an ordinary thread of the program that blocks all signals of sigfillset(3). */
static void test_musl(void)
{
    const struct collector musl = {.musl = true};
    const uint64_t all = ~(BIT(32) | BIT(33) | BIT(34) | BIT(SIGKILL) | BIT(SIGSTOP));

    CHECK(!collector_uses(&musl, &own.target, &own.memory, getpid(), BIT(34), all));
    CHECK(collector_uses(&musl, &own.target, &own.memory, getpid(), BIT(34), all | BIT(34)));
}

static void *take_and_release(void *unused)
{
    const struct collector *collector = unused;

    CHECK(pthread_mutex_lock(&lock) == 0);
    CHECK(!uses(collector, 0)); /* a request for the first thread, which does not have it */
    CHECK(pthread_mutex_unlock(&lock) == 0);
    return NULL;
}

static void test_lock(void)
{
    struct collector collector = {.lock = (remote_addr)(uintptr_t)&lock};
    const int32_t free_words[] = {0, 0, 0}, taken_words[] = {0, 16, 0}, instant[] = {1, 0, 0};
    pthread_t other;

    CHECK(!uses(&collector, 0));
    CHECK(pthread_mutex_lock(&lock) == 0);
    CHECK(uses(&collector, 0));
    CHECK(pthread_mutex_unlock(&lock) == 0);
    CHECK(pthread_create(&other, NULL, take_and_release, &collector) == 0);
    CHECK(pthread_join(other, NULL) == 0);
    collector.lock = (remote_addr)(uintptr_t)instant;
    CHECK(uses(&collector, 0));
    collector.lock = 16; /* cannot be read */
    CHECK(uses(&collector, 0));
    collector = (struct collector){.lock = (remote_addr)(uintptr_t)taken_words, .musl = true};
    CHECK(uses(&collector, 0));
    collector.lock = (remote_addr)(uintptr_t)free_words;
    CHECK(!uses(&collector, 0));
}

/* Its signals make this process suspect, its modules do not. (libgc's two would match the text that
   identifies libgc: this program contains it, too.) */
static void test_no_collector(void)
{
    struct plan plan = {.avoid_count = 0};

    own.target.status.sig_caught = BIT(SIGUSR1) | BIT(SIGUSR2) | BIT(34) | BIT(35);
    CHECK(collectors_find(&plan, &own.modules, &own.target, &own.memory, NULL) == FAULT_NONE);
    CHECK(!plan.collector.name && !plan.collector.refusal && !plan.collector.musl);
    CHECK(plan.forbidden.count == 0);
}

int main(void)
{
    if (CHECK(own_open(&own))) {
        test_signals();
        test_masks();
        test_musl();
        test_lock();
        test_no_collector();
    }
    own_close(&own);
    return check_result();
}
