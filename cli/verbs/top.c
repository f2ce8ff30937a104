/* jeattach top */
#include "cli/faults.h"
#include "cli/job.h"
#include "cli/output/screen.h"
#include "cli/output/sparkline.h"
#include "cli/output/stdout.h"
#include "cli/output/thread_view.h"
#include "cli/output/top_json.h"
#include "cli/presentation.h"
#include "cli/verbs/verbs.h"
#include "cli/words.h"
#include "run/output.h"
#include "run/peers.h"
#include "run/toggle.h"
#include "run/top_stack.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    PLAIN_ROWS = 20,
    TICK_NS = 1000000000, /* the countdown, and what is read between refreshes */
    COUNTED_S = 120,      /* a longer time until the next refresh is shown in minutes */
};

struct top {
    uint64_t begun; /* CLOCK_MONOTONIC ns */
    const struct options *options;
    struct presentation presentation; /* filter and number of rows */
    struct top_refresh refresh;
    struct job job;
    struct screen screen;
    struct top_page page;
    struct top_scroll scroll;
    struct top_stack stack; /* that Enter has opened */
    size_t site;            /* that was selected before */
    bool pressed;           /* p was, and prof.active was before it: */
    bool former, active;    /* and is now */
    uint64_t next_at;       /* CLOCK_MONOTONIC ns of the next refresh; 0: none */
    char clock[16], next[512], missed[512], next_in[32], status[768];
    bool quit, now, toggles; /* keys: the end, the next refresh, p */
};

/* ---- the page ---- */

/* Why there are no sites, and a template of the next step (message_expand). */
static const struct {
    const char *name, *why, *next;
} states[] = {
    [TOP_PROFILED] = {"active", "", ""},
    [TOP_ABSENT] = {"absent", "this jemalloc was built without profiling (config.prof is false)",
                    "start it with a jemalloc built with --enable-prof"},
    [TOP_DISABLED] = {"disabled", "profiling was not enabled at start (opt.prof is false)",
                      "start it with %V=prof:true,prof_active:false in its environment; no "
                      "jemalloc can enable profiling later"},
    [TOP_INACTIVE] = {"inactive", "profiling is not active (prof.active is false)",
                      "jeattach on %P"},
    [TOP_HOOKED] =
        {"hooked",
         "the application has a hook for finished dumps "
         "(experimental.hooks.prof_dump), which would look for the file",
         "jeattach dump --allow hooks %P, if that hook takes no lock of the application"},
    [TOP_EXTENT_HOOKS] = {"extent_hooks",
                          "the application has extent hooks, which would run in the call and "
                          "might wait for a lock that the stopped thread holds",
                          "jeattach top --allow hooks %P, if they take no such lock"},
    [TOP_TOO_LARGE] = {"too_large",
                       "its profile has more than 256 MiB: each refresh would take seconds",
                       "jeattach dump -o FILE %P"},
};

static void explain(struct top *top)
{
    const struct subject subject = job_subject(&top->job);
    enum top_profile state = top->refresh.profile;

    top->page.why = states[state].why;
    top->page.next = message_expand(&subject, states[state].next, top->next, sizeof top->next);
}

static void explain_missed(struct top *top, const struct fault *fault)
{
    const struct subject subject = job_subject(&top->job);

    top->page.missed = NULL;
    if (top->refresh.model.missed)
        top->page.missed = message_cause(&subject, fault, top->missed, sizeof top->missed);
}

static void draw_line(void *ctx, enum top_style style, const char *text)
{
    static const char *const escapes[] = {[TOP_PLAIN] = "",
                                          [TOP_BOLD] = "\033[1m",
                                          [TOP_DIM] = "\033[2m",
                                          [TOP_BAR] = "\033[7m",
                                          [TOP_SELECTED] = "\033[7m"};

    screen_line(ctx, escapes[style], text);
}

static struct top_size size_of(const struct top *top)
{
    const struct screen *screen = &top->screen;
    struct top_size size = {
        .columns = screen->columns, .lines = screen->lines, .rows = top->presentation.display.rows};

    if (!top->options->report.rows && !screen->lines)
        size.rows = PLAIN_ROWS;
    return size;
}

static void set_clock(struct top *top)
{
    time_t now = time(NULL);
    struct tm local;

    if (!localtime_r(&now, &local) || !strftime(top->clock, sizeof top->clock, "%H:%M:%S", &local))
        top->clock[0] = '\0';
    top->page.clock = top->clock;
}

/* True if it differs from what is shown. */
static bool count_down(struct top *top)
{
    uint64_t now = clock_now(), left = top->next_at > now ? top->next_at - now : 0;
    uint64_t seconds = (left + TICK_NS - 1) / TICK_NS;
    char text[sizeof top->next_in] = "";
    bool changes;

    if (!top->screen.shown || top->refresh.model.interval < 2ull * TICK_NS)
        seconds = 0;
    if (seconds > COUNTED_S)
        snprintf(text, sizeof text, "%llu min", (unsigned long long)(seconds + 59) / 60);
    else if (seconds)
        snprintf(text, sizeof text, "%llu s", (unsigned long long)seconds);
    changes = strcmp(text, top->next_in) != 0;
    memcpy(top->next_in, text, sizeof text);
    return changes;
}

static bool write_block(struct top *top, FILE *out)
{
    const struct top_model *model = &top->refresh.model;
    const struct top_size size = size_of(top);
    const struct top_json json = {.page = &top->page,
                                  .attachment = &top->refresh.attachment,
                                  .profiling = states[top->refresh.profile].name,
                                  .rows = size.rows};

    if (top->options->json)
        return top_json_write(&json, out);
    if (!top->screen.lines && model->refreshes > 1)
        fputc('\n', out); /* between two blocks */
    return top_lay_out(&top->page, &size, draw_line, &top->screen);
}

static fault_code draw(struct top *top, struct fault *fault)
{
    FILE *out = screen_begin(&top->screen);

    top->page.keys = top->screen.shown && top->screen.keys;
    count_down(top);
    if (!out || !write_block(top, out))
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "show", "a refresh");
    if (!screen_end(&top->screen))
        return output_stdout_failed(fault, errno);
    return FAULT_NONE;
}

/* ---- refreshes ---- */

/* Leaves a pause even if a refresh took longer than the interval. */
static uint64_t next_time(const struct top *top, uint64_t begun)
{
    const uint64_t interval = top->refresh.model.interval, soonest = clock_now() + interval / 10;
    const uint64_t end = top->options->duration_ns ? top->begun + top->options->duration_ns : 0;
    const uint64_t next = begun + interval > soonest ? begun + interval : soonest;

    return end && end < next ? end : next;
}

static fault_code show_next(struct top *top, uint64_t begun, struct fault *fault)
{
    fault_code rc = top_refresh_run(&top->refresh, fault);

    if (rc != FAULT_NONE)
        return rc;
    if (top->options->once)
        top->refresh.model.interval = 0;
    explain_missed(top, fault);
    if (!top_stack_take(&top->stack, &top->refresh))
        return fault_set(fault, FAULT_INTERNAL, ENOMEM, "show", "a stack");
    top->job.verb = "continue to show process";
    explain(top);
    set_clock(top);
    top->next_at = next_time(top, begun);
    return draw(top, fault);
}

/* top_lay_out corrects a row that is too high. */
static void scroll_by_key(struct top_scroll *scroll, int key)
{
    size_t page = scroll->rows > 1 ? scroll->rows - 1 : 1, *first = &scroll->selected;

    if (key == KEY_DOWN || key == 'j')
        *first += 1;
    else if (key == KEY_UP || key == 'k')
        *first -= *first > 0;
    else if (key == KEY_PAGE_DOWN || key == ' ')
        *first += page;
    else if (key == KEY_PAGE_UP)
        *first -= *first < page ? *first : page;
    else if (key == KEY_HOME || key == 'g')
        *first = 0;
    else if (key == KEY_END || key == 'G')
        *first = SIZE_MAX / 2;
}

static bool open_stack(struct top *top)
{
    const struct sites *sites = top->refresh.model.sites;
    const struct site **list = sites ? sites_sorted(sites, top->page.order) : NULL;
    bool good = !sites || list;

    if (list && top->scroll.selected < sites->count) {
        good = top_stack_open(&top->stack, list[top->scroll.selected]) &&
               top_stack_take(&top->stack, &top->refresh);
        top->page.stack = &top->stack;
        top->site = top->scroll.selected;
        top->scroll.selected = 0;
    }
    free(list);
    return good;
}

static void close_stack(struct top *top)
{
    if (top->page.stack)
        top->scroll.selected = top->site;
    top->page.stack = NULL;
    top_stack_close(&top->stack);
}

/* False: out of memory. */
static bool take_key(struct top *top)
{
    enum sites_order *order = &top->page.order;

    switch (top->screen.key) {
    case 'q':
        top->quit = !top->page.stack;
        close_stack(top);
        break;
    case KEY_ESCAPE:
        close_stack(top);
        break;
    case KEY_ENTER:
        if (!top->page.stack)
            return open_stack(top);
        close_stack(top);
        break;
    case 'p':
        top->toggles = true;
        break;
    case 'r':
        top->now = true;
        break;
    case 's':
        *order = *order == SITES_BY_SIZE ? SITES_BY_GROWTH : SITES_BY_SIZE;
        if (!top->page.stack)
            top->scroll.selected = 0;
        break;
    default:
        scroll_by_key(&top->scroll, top->screen.key);
    }
    return true;
}

/* ---- p: profiling on and off ---- */

/* "profiling: off -> on, read back; 13 of 13 threads sample" */
static void say_toggled(struct top *top, const struct toggle *toggle)
{
    const struct activation *activation = &toggle->activating.activation;
    char threads[THREAD_COUNTS_TEXT], how[96] = "one byte written, no thread stopped";

    if (!toggle->in_memory)
        snprintf(how, sizeof how, "by a call, one thread stopped");
    else if (activation->visited)
        snprintf(how, sizeof how, "one byte written, %zu threads stopped once",
                 activation->visited);
    snprintf(top->status, sizeof top->status, "profiling: %s -> %s, read back (%s)%s%s%s",
             toggle->former ? "on" : "off", toggle->now ? "on" : "off", how,
             toggle->activated ? "; threads: " : "",
             toggle->activated ? thread_counts_text(toggle->activating.counts, true,
                                                    toggle->activating.unknown_why, threads)
                               : "",
             peers_sample(&top->refresh.attachment.target)
                 ? "; another run of jeattach samples this process"
                 : "");
}

static bool ends_top(fault_code rc)
{
    return rc == FAULT_GONE || rc == FAULT_EXECED || rc == FAULT_INTERRUPTED;
}

static fault_code press_p(struct top *top, struct fault *fault)
{
    const enum top_profile state = top->refresh.profile;
    const struct subject subject = job_subject(&top->job);
    struct toggle toggle = {0};
    char cause[512];
    fault_code rc;

    top->toggles = false;
    if (state == TOP_ABSENT || state == TOP_DISABLED) {
        snprintf(top->status, sizeof top->status, "profiling cannot be switched on: %s",
                 states[state].why);
        return FAULT_NONE;
    }
    rc = toggle_prof(&top->refresh.attachment, state != TOP_INACTIVE, &toggle, fault);
    if (toggle.known && !top->pressed)
        top->former = toggle.former;
    if (toggle.known) {
        top->pressed = true;
        top->active = toggle.now;
        say_toggled(top, &toggle);
    }
    if (rc != FAULT_NONE && !ends_top(rc))
        snprintf(top->status, sizeof top->status, "%s: %s",
                 !toggle.known ? "profiling was not switched"
                 : toggle.now  ? "profiling is on, but not all threads may sample"
                               : "profiling is off",
                 message_cause(&subject, fault, cause, sizeof cause));
    top->now = true;
    return ends_top(rc) ? rc : FAULT_NONE;
}

/* The state stays as the user has set it: only then it is what the last page said. */
static void tell_left(const struct top *top, fault_code rc)
{
    const int pid = (int)top->refresh.attachment.target.pid;

    if (top->pressed && top->active != top->former && rc != FAULT_GONE && rc != FAULT_EXECED)
        message("profiling is left %s, as the key p has set it; to undo that: jeattach %s %d",
                top->active ? "on" : "off", top->active ? "off" : "on", pid);
}

/* What is due before the next refresh. */
static fault_code glance(struct top *top, struct fault *fault)
{
    bool changes = top_refresh_glance(&top->refresh);

    return (changes | count_down(top)) && top->screen.shown ? draw(top, fault) : FAULT_NONE;
}

/* When to wake up: for the next refresh, or before it for a tick. */
static uint64_t next_wake(struct top *top)
{
    uint64_t tick_at = clock_now() + TICK_NS, soonest = top_refresh_soonest(&top->refresh);

    if (top->now && soonest < top->next_at)
        top->next_at = soonest;
    return top->screen.shown && tick_at < top->next_at ? tick_at : top->next_at;
}

/* Waits for the next refresh; a key or a new terminal size only redraws. */
static fault_code wait_for_next(struct top *top, struct fault *fault)
{
    const struct target *target = &top->refresh.attachment.target;
    fault_code rc = FAULT_NONE;

    top->now = false;
    while (rc == FAULT_NONE && !top->quit) {
        switch (screen_wait(&top->screen, next_wake(top), target)) {
        case SCREEN_TIMEOUT:
            if (clock_now() >= top->next_at)
                return FAULT_NONE;
            rc = glance(top, fault);
            continue;
        case SCREEN_INTERRUPTED:
            return fault_set(fault, FAULT_INTERRUPTED, EINTR, "wait", "%d", (int)target->pid);
        case SCREEN_ENDED:
            return target_check(target, fault);
        case SCREEN_KEY:
            top->status[0] = '\0';
            if (!take_key(top))
                return fault_set(fault, FAULT_INTERNAL, ENOMEM, "show", "a stack");
            if (top->toggles)
                rc = press_p(top, fault);
            break;
        case SCREEN_RESIZED:
            break;
        }
        if (rc == FAULT_NONE && top->screen.lines && !top->quit)
            rc = draw(top, fault);
    }
    return rc;
}

static bool is_last(const struct top *top, unsigned done)
{
    const struct options *options = top->options;

    return options->once || (options->count && done >= options->count) ||
           (options->duration_ns && clock_now() - top->begun >= options->duration_ns);
}

static fault_code show_all(struct top *top, struct fault *fault)
{
    fault_code rc = FAULT_NONE;

    for (unsigned done = 1; rc == FAULT_NONE && !top->quit; done++) {
        uint64_t begun = clock_now();
        rc = show_next(top, begun, fault);
        if (rc != FAULT_NONE || is_last(top, done))
            break;
        rc = wait_for_next(top, fault);
    }
    return rc;
}

/* Leaves the last page on the terminal as ordinary text. */
static void leave_screen(struct top *top)
{
    struct fault ignored;
    unsigned lines = top->screen.lines;

    if (!lines)
        return;
    screen_leave(&top->screen);
    if (!top->refresh.model.refreshes)
        return;
    close_stack(top);
    top->scroll.selected = 0;
    top->status[0] = '\0';
    draw(top, &ignored);
}

/* Ctrl-C is the usual end, unless a number of refreshes was requested. */
static fault_code judge_end(const struct top *top, fault_code rc)
{
    bool endless = !top->options->count && !top->options->once && !top->options->duration_ns;

    return rc == FAULT_INTERRUPTED && endless && top->refresh.model.refreshes ? FAULT_NONE : rc;
}

static fault_code perform_top(struct top *top, struct fault *fault)
{
    fault_code rc;

    top->begun = clock_now();
    screen_open(&top->screen, !top->options->json && !top->options->once);
    rc = show_all(top, fault);
    leave_screen(top);
    tell_left(top, rc);
    return judge_end(top, rc);
}

static bool take_order(const struct options *options, enum sites_order *order)
{
    static const char *const names[] = {[SITES_BY_SIZE] = "cur", [SITES_BY_GROWTH] = "growth"};
    const char *word = options->report.sort;

    *order = SITES_BY_SIZE;
    return !word || words_choose("order", word, names, ARRAY_LEN(names), order);
}

static struct top_request request_of(const struct top *top)
{
    const struct options *options = top->options;

    return (struct top_request){.samples = &top->presentation.samples,
                                .interval_ns = options->every_ns,
                                .no_inlines = options->report.no_inlines,
                                .debuginfod = options->report.debuginfod};
}

static int top_main(const struct options *options, pid_t pid)
{
    struct top top = {.options = options};
    struct attach_request attach;
    struct top_request request;
    struct fault fault;
    fault_code rc;

    if (!take_order(options, &top.page.order) ||
        !presentation_init(&top.presentation, options, FORMAT_TEXT)) {
        presentation_free(&top.presentation);
        return EXIT_USAGE;
    }
    screen_init(&top.screen);
    job_init(&top.job, &top.refresh.attachment, options, "show the memory of process");
    attach = job_look_request(&top.job, pid);
    rc = top_refresh_open(&top.refresh, &attach, &fault);
    request = request_of(&top);
    top_refresh_init(&top.refresh, &request);
    top.page.model = &top.refresh.model;
    top.page.next_in = top.next_in;
    top.page.scroll = &top.scroll;
    top.page.status = top.status;
    top.page.utf8 = locale_is_utf8();
    if (rc == FAULT_NONE)
        rc = perform_top(&top, &fault);
    screen_close(&top.screen);
    top_stack_close(&top.stack);
    top_refresh_free(&top.refresh);
    presentation_free(&top.presentation);
    return job_finish(&top.job, rc, &fault);
}

const struct verb verb_top = {
    .name = "top",
    .summary = "show memory and the largest allocation sites, live",
    .synopses = {"[options] PROCESS"},
    .examples = {{"jeattach top 4242", "live; its last line lists the keys, q ends it"},
                 {"jeattach top 4242 --once", "one screen, also in a pipe"}},
    .takes = TAKES_REFRESH | TAKES_ONE | TAKES_HOOKS | TAKES_WAY,
    .intro = "Shows, at each refresh, the RSS and the parts of it, with rates per second,\n"
             "and the allocation sites that hold the most or grow the fastest. A site is the\n"
             "innermost four calls of a stack; its size is estimated from jemalloc's samples,\n"
             "and a growth marked ~ is within the error of the estimate, one marked = has\n"
             "stopped. Refreshes read the memory of the process and stop nothing. Where that\n"
             "does not show the profile of a process that samples, a thread is stopped for\n"
             "calls; if that would exceed 1 % of the time, the interval grows, which is shown\n"
             "too.\n"
             "\n"
             "Without profiling, only the counts are shown, and what to do about it.\n",
    .notes = "On a terminal, q and Ctrl-C end it, r refreshes at once, s sorts by the other\n"
             "column; the arrows, j, k, PgUp, PgDn, g and G select a site, and Enter opens its\n"
             "stack: Esc, q or Enter goes back. p switches profiling on or off, as the verbs\n"
             "on and off do, and it stays so at the end. The exit code is then 0, or 130\n"
             "before --count or -d is reached. It is 3 if the process ends.\n",
    .options =
        {
            {"duration", NULL, "end after this time: 30s, 5m, 1h"},
            {"every", NULL, "time between two refreshes (default 2s, at least 100ms)"},
            {"count", NULL, "end after N refreshes"},
            {"once", NULL, "show one refresh, without rates, and do not clear the terminal"},
            {"rows", NULL,
             "show at most N sites; default: what fits on the terminal, else 20; 0: all"},
            {"json", NULL, "print one JSON object a line, for each refresh"},
        },
    .run = top_main,
};
