/* A sliding window of numbers, compared with all of them. */
#include "check.h"
#include "run/window.h"

#include <stdlib.h>

enum { NUMBERS = 4000, LENGTH = 1000 };

static void test_least(void)
{
    static uint64_t times[NUMBERS], values[NUMBERS];
    struct window window;
    uint64_t now = 0, seed = 1;

    window_clear(&window);
    for (int i = 0; i < NUMBERS; i++) {
        uint64_t found = 0, whole = UINT64_MAX, part = UINT64_MAX;
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        now += 1 + (seed >> 33) % 40;
        times[i] = now;
        values[i] = 1000 + (seed >> 40) % 100000;
        window_add(&window, LENGTH, now, values[i]);
        for (int k = i; k >= 0 && now - times[k] <= LENGTH; k--) {
            whole = values[k] < whole ? values[k] : whole;
            if (now - times[k] <= LENGTH - LENGTH / 10)
                part = values[k] < part ? values[k] : part;
        }
        /* At the far end a slot is in the window or not, as a whole. */
        if (!CHECK(window_least(&window, LENGTH, now, &found)) || !CHECK(found >= whole) ||
            !CHECK(found <= part))
            return;
        CHECK(window_oldest(&window, LENGTH, now, &found));
    }
    CHECK(!window_least(&window, LENGTH, now + LENGTH + 100, &now));
}

static void test_oldest(void)
{
    struct window window;
    uint64_t value = 0;

    window_clear(&window);
    CHECK(!window_oldest(&window, LENGTH, 5, &value));
    for (uint64_t now = 0; now <= 5 * LENGTH; now += 7) {
        window_add(&window, LENGTH, now, now); /* each has its own time */
        CHECK(window_oldest(&window, LENGTH, now, &value));
        CHECK(now < LENGTH ? value == 0 : now - value <= LENGTH && now - value > LENGTH * 9 / 10);
    }
}

static void test_before(void)
{
    struct window window;
    uint64_t value = 0;

    window_clear(&window);
    CHECK(!window_before(&window, LENGTH, 5, &value));
    for (uint64_t now = 0; now <= 5 * LENGTH; now += 7) {
        window_add(&window, LENGTH, now, now);
        CHECK(window_before(&window, LENGTH, now, &value));
        CHECK(now < LENGTH ? value == 0 : now - value >= LENGTH && now - value < LENGTH * 11 / 10);
    }
    CHECK(window_before(&window, LENGTH, 9 * LENGTH, &value) && value > 4 * LENGTH);
}

static void test_order(void)
{
    struct window window;
    uint64_t value = 0;

    window_clear(&window);
    window_add(&window, LENGTH, 500, 10);
    window_add(&window, LENGTH, 400, 5); /* from before */
    CHECK(window_least(&window, LENGTH, 500, &value) && value == 10);
    CHECK(!window_least(&window, LENGTH, 400, &value));
    window_add(&window, LENGTH, 500, 8);
    CHECK(window_least(&window, LENGTH, 500, &value) && value == 8);
    CHECK(window_oldest(&window, LENGTH, 500, &value) && value == 10);
}

int main(void)
{
    test_least();
    test_oldest();
    test_before();
    test_order();
    return check_result();
}
