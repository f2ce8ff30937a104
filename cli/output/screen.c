#include "cli/output/screen.h"
#include "run/interrupt.h"
#include "run/output.h"
#include "run/pause.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

/* ECMA-48, and DEC private modes 1049 (the other screen) and 25 (the cursor). */
#define ENTER "\033[?1049h\033[?25l\033[H\033[2J"
#define LEAVE "\033[0m\033[?25h\033[?1049l"

enum { LEAST_COLUMNS = 20, LEAST_LINES = 4 };

/* For a handler, which must bring the terminal back without the screen at hand. */
static struct {
    volatile sig_atomic_t shown, keys;
    struct termios former;
} terminal;

/* Async-signal-safe: write(2) and tcsetattr(3) alone. */
static void restore(void)
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

static bool can_be_drawn_on(void)
{
    const char *name = getenv("TERM");

    return isatty(STDOUT_FILENO) && name && *name && strcmp(name, "dumb") != 0;
}

/* A terminal that does not tell is taken for one of the usual size. */
static void read_size(struct screen *screen)
{
    struct winsize size = {.ws_col = 0};

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col || !size.ws_row)
        size = (struct winsize){.ws_col = 80, .ws_row = 24};
    screen->columns = size.ws_col < LEAST_COLUMNS ? LEAST_COLUMNS : size.ws_col;
    screen->lines = size.ws_row < LEAST_LINES ? LEAST_LINES : size.ws_row;
}

/*
 * Keys are read one by one only in the foreground: elsewhere it would be stopped
 * for that. Ctrl-C must not throw away what has been written and not yet been
 * shown (NOFLSH), as the way back may be in it.
 */
static bool take_keys(void)
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

static void enter(struct screen *screen)
{
    read_size(screen);
    screen->keys = take_keys();
    if (!screen->keys)
        terminal.keys = 0;
    terminal.shown = 1;
    screen->shown = output_stdout_write(ENTER, sizeof ENTER - 1);
}

static int take_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGWINCH);
    sigaddset(&set, SIGTSTP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

void screen_init(struct screen *screen)
{
    *screen = (struct screen){.signals = take_signals()};
}

void screen_open(struct screen *screen, bool wanted)
{
    interrupt_at_end(restore);
    if (isatty(STDOUT_FILENO))
        read_size(screen);
    screen->lines = 0; /* it may scroll */
    if (wanted && can_be_drawn_on())
        enter(screen);
}

void screen_leave(struct screen *screen)
{
    restore();
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
    screen->signals = -1;
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
    return output_stdout_write(screen->block, (size_t)ftello(screen->out));
}

/* ---- waiting ---- */

/* As any program at Ctrl-Z; continued, it takes the terminal again. */
static void suspend(struct screen *screen)
{
    bool shown = screen->shown;

    restore();
    screen->shown = screen->keys = false;
    kill(getpid(), SIGSTOP);
    if (shown)
        enter(screen);
}

static enum screen_event take_signal(struct screen *screen)
{
    struct signalfd_siginfo info;

    while (read(screen->signals, &info, sizeof info) == sizeof info)
        if (info.ssi_signo == SIGTSTP)
            suspend(screen);
    if (screen->shown)
        read_size(screen);
    return SCREEN_RESIZED;
}

/* A terminal that has been closed is read as empty, for ever. */
static enum screen_event take_key(struct screen *screen)
{
    ssize_t n = read(STDIN_FILENO, &screen->key, 1);

    return n == 1 ? SCREEN_KEY : SCREEN_INTERRUPTED;
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
        return take_signal(screen);
    return also[KEYS].revents ? take_key(screen) : SCREEN_TIMEOUT;
}
