/* Keys from the bytes of a terminal. */
#include "check.h"
#include "cli/output/screen.h"

#include <string.h>

/* Returns the only key in the bytes; -1: there are others. */
static int only_key(const char *bytes)
{
    struct keys keys = {0};
    int found = KEY_NONE;

    for (size_t i = 0; i < strlen(bytes); i++) {
        int key = keys_take(&keys, (unsigned char)bytes[i]);
        if (key != KEY_NONE)
            found = found == KEY_NONE ? key : -1;
    }
    return found;
}

static void test_letters(void)
{
    CHECK(only_key("q") == 'q');
    CHECK(only_key(" ") == ' ');
    CHECK(only_key("\033q") == 'q'); /* Alt-q, or Escape and q */
    CHECK(only_key("\033\033[A") == KEY_UP);
    CHECK(only_key("ss") == -1);
}

static void test_sequences(void)
{
    CHECK(only_key("\033[A") == KEY_UP && only_key("\033OA") == KEY_UP);
    CHECK(only_key("\033[B") == KEY_DOWN);
    CHECK(only_key("\033[5~") == KEY_PAGE_UP && only_key("\033[6~") == KEY_PAGE_DOWN);
    CHECK(only_key("\033[H") == KEY_HOME && only_key("\033[1~") == KEY_HOME);
    CHECK(only_key("\033[F") == KEY_END && only_key("\033[4~") == KEY_END);
    CHECK(only_key("\033[1;5A") == KEY_UP); /* with Ctrl */
}

/* None of their bytes is a key: `q` would end top. */
static void test_unknown_sequences(void)
{
    CHECK(only_key("\033[15~") == KEY_NONE);
    CHECK(only_key("\033[200~") == KEY_NONE);
    CHECK(only_key("\033[>4;1m") == KEY_NONE);
    CHECK(only_key("\033[?1;2q") == KEY_NONE);
    CHECK(only_key("\033[99999999999999999999~") == KEY_NONE);
    CHECK(only_key("\033[") == KEY_NONE);
    CHECK(only_key("\033[Dq") == 'q');
}

int main(void)
{
    test_letters();
    test_sequences();
    test_unknown_sequences();
    return check_result();
}
