/*
 * Leaks objects of 512 bytes, 2 MiB/s for 50 s: `classes WHAT BEFORE`, each "session", which have
 * a vtable, "chars", which have none, or "nothing". BEFORE: 40,000 of them are there from the
 * start, idle; "holes": 160,000 chars, of which every second is freed, so that the leak needs no
 * new page for 20 s.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

struct Session {
    long id;
    char state[496];
    explicit Session(long number) : id(number) { memset(state, 'a', sizeof state); }
    virtual ~Session() {}
};

enum { IDLE = 40000, HOLES = 160000, STEP = 20, PAUSE_US = 5000, MOST = 200000 };

static void *kept[HOLES + MOST];

__attribute__((noinline)) static void *leak_session(long number)
{
    return new Session(number);
}

__attribute__((noinline)) static void *leak_chars(long number)
{
    char *chars = static_cast<char *>(malloc(512));

    memset(chars, 'a' + number % 20, 512);
    return chars;
}

static void *leak_one(const char *what, long number)
{
    return strcmp(what, "session") == 0 ? leak_session(number) : leak_chars(number);
}

int main(int argc, char **argv)
{
    const char *what = argv[1], *before = argc > 2 ? argv[2] : "nothing";
    const bool holes = strcmp(before, "holes") == 0;
    const long idle = holes ? HOLES : strcmp(before, "nothing") == 0 ? 0 : IDLE;

    for (long i = 0; i < idle; i++)
        kept[i] = leak_one(holes ? "chars" : before, i);
    for (long i = 0; holes && i < idle; i += 2)
        free(kept[i]);
    puts("ready");
    fflush(stdout);
    for (long i = 0; i < MOST; i++) {
        kept[idle + i] = leak_one(what, i);
        if (i % STEP == 0)
            usleep(PAUSE_US);
    }
    pause();
    return 0;
}
