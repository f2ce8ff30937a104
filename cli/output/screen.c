#include "cli/output/screen.h"
#include "cli/output/stdout.h"
#include "run/interrupt.h"
#include "run/pause.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

/* ---- keys ---- */

enum { ESCAPE = 033, NUMBER_MAX = 1000 };

/* ESC [ 5 ~ */
static enum key numbered_key(unsigned number)
{
    switch (number) {
    case 1:
    case 7:
        return KEY_HOME;
    case 4:
    case 8:
        return KEY_END;
    case 5:
        return KEY_PAGE_UP;
    case 6:
        return KEY_PAGE_DOWN;
    default:
        return (int)KEY_NONE;
    }
}

/* ESC [ A, or ESC O A in application mode */
static enum key final_key(const struct keys *keys, unsigned char byte)
{
    switch (byte) {
    case 'A':
        return KEY_UP;
    case 'B':
        return KEY_DOWN;
    case 'H':
        return KEY_HOME;
    case 'F':
        return KEY_END;
    case '~':
        return numbered_key(keys->number);
    default:
        return (int)KEY_NONE;
    }
}

/* Parameters (0 to ;) and intermediate bytes come before the final byte, @ to ~. */
static int take_in_sequence(struct keys *keys, unsigned char byte)
{
    if (byte >= '0' && byte <= '9' && keys->number < NUMBER_MAX)
        keys->number = 10 * keys->number + (unsigned)(byte - '0');
    else if (byte == ';')
        keys->number = NUMBER_MAX; /* with a modifier: no key of ours, unless it has a letter */
    if (byte >= ' ' && byte < '@')
        return (int)KEY_NONE;
    keys->state = KEYS_PLAIN;
    return (int)final_key(keys, byte);
}

int keys_take(struct keys *keys, unsigned char byte)
{
    if (byte == ESCAPE) {
        keys->state = KEYS_ESCAPE;
        return (int)KEY_NONE;
    }
    switch (keys->state) {
    case KEYS_ESCAPE:
        keys->state = byte == '[' || byte == 'O' ? KEYS_SEQUENCE : KEYS_PLAIN;
        keys->number = 0;
        return keys->state == KEYS_SEQUENCE ? KEY_NONE : byte;
    case KEYS_SEQUENCE:
        return take_in_sequence(keys, byte);
    default:
        return byte;
    }
}

/* ---- the terminal ---- */

/* ECMA-48, and DEC private modes 1049 (alternate screen) and 25 (cursor). */
#define ENTER "\033[?1049h\033[?25l\033[H\033[2J"
#define LEAVE "\033[0m\033[?25h\033[?1049l"

enum { COLUMNS_MIN = 20, LINES_MIN = 4, ESCAPE_MS = 50 };

/* Global for the signal handler, which restores the terminal without access to the screen. */
static struct {
    volatile sig_atomic_t shown, keys;
    struct termios former;
} terminal;

/* Async-signal-safe: uses only write(2) and tcsetattr(3). */
static void restore_terminal(void)
{
    size_t len = terminal.shown ? sizeof LEAVE - 1 : 0;

    for (const char *at = LEAVE; len > 0;) {
        ssize_t n = write(STDOUT_FILENO, at, len);
        if (n < 0 && errno != EINTR)
            break;
        at += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    if (terminal.keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &terminal.former);
    terminal.shown = terminal.keys = 0;
}

/* A terminal of unknown size is assumed to have 80 columns and 24 lines. */
static void read_size(struct screen *screen)
{
    struct winsize size = {.ws_col = 0};

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col || !size.ws_row)
        size = (struct winsize){.ws_col = 80, .ws_row = 24};
    screen->columns = size.ws_col < COLUMNS_MIN ? COLUMNS_MIN : size.ws_col;
    screen->lines = size.ws_row < LINES_MIN ? LINES_MIN : size.ws_row;
}

/*
 * Reads keys one by one, but only in the foreground: a background process would
 * be stopped. Ctrl-C must not discard output that is not yet shown (NOFLSH),
 * because it may contain the sequence that restores the terminal.
 */
static bool start_reading_keys(void)
{
    struct termios mode;

    if (!isatty(STDIN_FILENO) || tcgetpgrp(STDIN_FILENO) != getpgrp() ||
        tcgetattr(STDIN_FILENO, &terminal.former))
        return false;
    mode = terminal.former;
    mode.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    mode.c_lflag |= NOFLSH;
    mode.c_cc[VMIN] = 1;
    mode.c_cc[VTIME] = 0;
    terminal.keys = 1;
    return tcsetattr(STDIN_FILENO, TCSADRAIN, &mode) == 0;
}

static void enter_screen(struct screen *screen)
{
    read_size(screen);
    screen->keys = start_reading_keys();
    if (!screen->keys)
        terminal.keys = 0;
    terminal.shown = 1;
    screen->shown = stdout_write(ENTER, sizeof ENTER - 1);
}

void screen_init(struct screen *screen)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGWINCH);
    sigaddset(&set, SIGTSTP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    *screen = (struct screen){.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)};
}

void screen_open(struct screen *screen, bool wanted)
{
    const char *name = getenv("TERM");
    const bool is_terminal = isatty(STDOUT_FILENO);

    interrupt_at_end(restore_terminal);
    if (is_terminal)
        read_size(screen);
    screen->lines = 0; /* output may scroll */
    if (wanted && is_terminal && name && *name && strcmp(name, "dumb") != 0)
        enter_screen(screen);
}

void screen_leave(struct screen *screen)
{
    restore_terminal();
    screen->shown = screen->keys = false;
}

void screen_close(struct screen *screen)
{
    screen_leave(screen);
    interrupt_at_end(NULL);
    if (screen->out)
        fclose(screen->out);
    free(screen->block);
    screen->out = NULL;
    screen->block = NULL;
    util_close(&screen->signals);
}

/* ---- drawing: one write(2), from the top left corner, so that nothing flickers ---- */

FILE *screen_begin(struct screen *screen)
{
    if (!screen->out)
        screen->out = open_memstream(&screen->block, &screen->block_size);
    if (!screen->out)
        return NULL;
    rewind(screen->out);
    screen->drawn = 0;
    if (screen->shown)
        fputs("\033[H", screen->out);
    return screen->out;
}

void screen_line(struct screen *screen, const char *style, const char *text)
{
    if (!screen->shown) {
        fprintf(screen->out, "%s\n", text);
        return;
    }
    /* No newline after the last line of the terminal: it would scroll. */
    fprintf(screen->out, "%s%s%s%s\033[K", screen->drawn++ ? "\r\n" : "", style, text,
            *style ? "\033[0m" : "");
}

bool screen_end(struct screen *screen)
{
    if (screen->shown)
        fputs("\033[J", screen->out);
    if (fflush(screen->out)) {
        errno = ENOMEM;
        return false;
    }
    return stdout_write(screen->block, (size_t)ftello(screen->out));
}

/* ---- waiting ---- */

static enum screen_event read_signals(struct screen *screen)
{
    struct signalfd_siginfo info;

    while (read(screen->signals, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo != SIGTSTP)
            continue;
        /* Stops, as any program at Ctrl-Z; when continued, takes over the terminal again. */
        bool shown = screen->shown;
        screen_leave(screen);
        kill(getpid(), SIGSTOP);
        if (shown)
            enter_screen(screen);
    }
    if (screen->shown)
        read_size(screen);
    return SCREEN_RESIZED;
}

/* Reading a closed terminal returns end of file, forever. */
static enum screen_event read_key(struct screen *screen)
{
    struct pollfd more = {STDIN_FILENO, POLLIN, 0};
    unsigned char byte;

    if (read(STDIN_FILENO, &byte, 1) != 1)
        return SCREEN_INTERRUPTED;
    screen->key = keys_take(&screen->decoder, byte);
    /* The sequence of a key comes at once; the key Escape alone sends no more. */
    if (screen->decoder.state == KEYS_ESCAPE && poll(&more, 1, ESCAPE_MS) == 0) {
        screen->decoder = (struct keys){0};
        screen->key = KEY_ESCAPE;
    }
    return SCREEN_KEY;
}

enum screen_event screen_wait(struct screen *screen, uint64_t until, const struct target *target)
{
    enum { SIGNALS, KEYS };
    struct pollfd also[] = {{screen->signals, POLLIN, 0},
                            {screen->keys ? STDIN_FILENO : -1, POLLIN, 0}};
    const struct pause pause = {.until = until,
                                .interrupted = interrupt_flag(),
                                .target = target,
                                .also = also,
                                .also_count = ARRAY_LEN(also)};

    switch (pause_until(&pause)) {
    case PAUSE_INTERRUPTED:
        return SCREEN_INTERRUPTED;
    case PAUSE_ENDED:
        return SCREEN_ENDED;
    case PAUSE_OVER:
        break;
    }
    if (also[SIGNALS].revents)
        return read_signals(screen);
    return also[KEYS].revents ? read_key(screen) : SCREEN_TIMEOUT;
}
