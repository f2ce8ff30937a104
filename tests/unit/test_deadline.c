/* Deadlines. */
#include "base/interruptions.h"
#include "check.h"

#include <errno.h>

static const uint64_t ms = 1000000;

/* A blocking call is interrupted long before. */
static void test_ticks(void)
{
    struct deadline deadline;

    CHECK(deadline_start(&deadline, 60000 * ms, NULL, NULL) == FAULT_NONE && deadline.armed);
    CHECK(pause() == -1 && errno == EINTR);
    CHECK(!deadline_passed(&deadline));
    deadline_stop(&deadline);
    CHECK(!deadline.armed);
    deadline_stop(&deadline);
}

static void test_passing(void)
{
    struct deadline deadline;
    uint64_t begun = clock_now();

    CHECK(deadline_start(&deadline, 200 * ms, NULL, NULL) == FAULT_NONE && deadline.armed);
    while (!deadline_passed(&deadline))
        pause();
    CHECK(clock_now() - begun >= 200 * ms && clock_now() >= deadline.at);
    deadline_stop(&deadline);
}

static void test_borders(void)
{
    struct deadline past = {.at = clock_now()}, far = {.at = UINT64_MAX};

    CHECK(deadline_passed(&past) && !deadline_passed(&far));
}

static void test_interrupted(void)
{
    volatile sig_atomic_t flag = 0;
    struct deadline deadline = {.interrupted = &flag}, none = {0};

    CHECK(!deadline_interrupted(&deadline) && !deadline_interrupted(&none));
    flag = 1;
    CHECK(deadline_interrupted(&deadline));
}

int main(void)
{
    test_ticks();
    test_passing();
    test_borders();
    test_interrupted();
    return check_result();
}
