#include "jemalloc/stripped/xrefs.h"
#include "base/search.h"

#include <string.h>

enum {
    OPTION_MAX = 48,
    VERSION_TEXT_MAX = 128,
    CALL_NEAR = 96,           /* largest distance of an argument from its call, bytes of code */
    CANDIDATES_MAX = 64,      /* functions that can get votes */
    USERS_MAX = 64,           /* functions that use the root */
    VOTES_MIN = 8,            /* measured: 12 to 27; the next function has at most 5 */
    FUNCTION_MAX = 256 << 10, /* limit of bytes of code of one function */
    REPORT_REACH = 1 << 20,   /* bytes around the user of the headline that contain its caller */
};

/* --- constants --- */

static const char headline[] = "___ Begin jemalloc statistics ___";
static const char config_start[] = "/etc/", config_end[] = "malloc.conf";

static void take_options(struct texts *texts, const struct piece *piece)
{
    const unsigned char *at = piece->bytes, *end = piece->bytes + piece->len;

    while (texts->option_count < TEXTS_MAX &&
           (at = memmem(at, (size_t)(end - at), "opt.", 4)) != NULL) {
        const size_t offset = (size_t)(at - piece->bytes), len = (size_t)(end - at);
        size_t n = 4;

        if (offset >= piece->fresh)
            return;
        while (n < len && n < OPTION_MAX &&
               ((at[n] >= 'a' && at[n] <= 'z') || at[n] == '_' || at[n] == '.'))
            n++;
        if (n > 4 && n < len && at[n] == '\0')
            texts->options[texts->option_count++] = piece->at + offset;
        at += 4;
    }
}

/*
 * Takes X of "/etc/Xmalloc.conf" (jemalloc.c, obtain_malloc_conf). Since 5.3.0 an
 * explanation contains "/etc/malloc.conf" in every build: it says nothing.
 */
static void take_config(struct texts *texts, const struct piece *piece)
{
    const unsigned char *at = piece->bytes, *end = piece->bytes + piece->len;
    const size_t len = sizeof config_start - 1;

    for (; (at = memmem(at, (size_t)(end - at), config_end, sizeof config_end)) != NULL; at++) {
        const unsigned char *first = at;
        while (first > piece->bytes && at - first < CONFIG_PREFIX_MAX - 1 && first[-1] != '/')
            first--;
        size_t before = (size_t)(first - piece->bytes);
        if (first == at || texts->config_prefix[0] || before < len ||
            memcmp(first - len, config_start, len) != 0)
            continue;
        memcpy(texts->config_prefix, first, (size_t)(at - first));
        texts->config_prefix[at - first] = '\0';
    }
}

static bool visit_texts(void *ctx, const struct piece *piece)
{
    struct texts *texts = ctx;
    const unsigned char *at = memmem(piece->bytes, piece->len, headline, sizeof headline - 1);

    if (at && !texts->headline)
        texts->headline = piece->at + (remote_addr)(at - piece->bytes);
    take_options(texts, piece);
    take_config(texts, piece);
    return true;
}

void texts_find(struct texts *texts, const struct view *view)
{
    memset(texts, 0, sizeof *texts);
    view_scan_segments(view, PF_W | PF_X, 0, OPTION_MAX + CONFIG_PREFIX_MAX, visit_texts, texts);
    if (!texts->option_count)
        view_scan_segments(view, PF_W | PF_X, PF_X, OPTION_MAX + CONFIG_PREFIX_MAX, visit_texts,
                           texts);
}

/* --- code --- */

struct code_visit {
    const struct view *view;
    struct ref_query query;
};

static struct ref_query complete_query(const struct view *view, const struct ref_query *query)
{
    struct ref_query whole = *query;

    whole.absolute = view->image.header.e_type == ET_EXEC;
    if (!whole.high) {
        whole.low = view->module->start;
        whole.high = view->module->end;
    }
    return whole;
}

static bool visit_code(void *ctx, const struct piece *piece)
{
    const struct code_visit *visit = ctx;

    refs_visit(piece->bytes, piece->len, piece->fresh, piece->at, &visit->query);
    return true;
}

bool xrefs_visit_code(const struct view *view, const struct ref_query *query)
{
    struct code_visit visit = {view, complete_query(view, query)};
    return view_scan_segments(view, PF_X, PF_X, REF_OVERLAP, visit_code, &visit);
}

static bool visit_range(const struct view *view, remote_addr start, remote_addr end,
                        const struct ref_query *query)
{
    struct code_visit visit = {view, complete_query(view, query)};
    struct segment segment;

    if (!view_segment_at(view, start, &segment) || end <= start || end > segment.end)
        return false;
    /* With a few more bytes on both sides: the decoder looks back, and finishes an instruction. */
    start = start - segment.start < 2 ? segment.start : start - 2;
    end = segment.end - end < 8 ? segment.end : end + 8;
    if (end - start > FUNCTION_MAX)
        end = start + FUNCTION_MAX;
    return view_scan(view, start, end, REF_OVERLAP, visit_code, &visit);
}

bool xrefs_visit_function(const struct view *view, const struct eh_frames *frames, size_t function,
                          const struct ref_query *query)
{
    return visit_range(view, eh_frames_start(frames, function), eh_frames_end(frames, function),
                       query);
}

/* --- votes --- */

struct users {
    size_t list[USERS_MAX]; /* indices of functions */
    size_t count;
};

static void users_add(struct users *users, size_t function)
{
    for (size_t i = 0; i < users->count; i++)
        if (users->list[i] == function)
            return;
    if (users->count < USERS_MAX && function != SIZE_MAX)
        users->list[users->count++] = function;
}

static bool users_have(const struct users *users, size_t function)
{
    for (size_t i = 0; i < users->count; i++)
        if (users->list[i] == function)
            return true;
    return false;
}

struct ballot {
    const struct eh_frames *frames;
    const struct texts *texts;
    remote_addr argument; /* where the name of an option was last made an argument; 0: nowhere */
    struct {
        remote_addr function;
        unsigned votes;
    } candidates[CANDIDATES_MAX];
    size_t candidate_count;
    struct users of_headline;
};

static void add_vote(struct ballot *ballot, remote_addr function)
{
    size_t i = 0;

    while (i < ballot->candidate_count && ballot->candidates[i].function != function)
        i++;
    if (i == CANDIDATES_MAX || !eh_frames_begin_at(ballot->frames, function))
        return;
    if (i == ballot->candidate_count)
        ballot->candidates[ballot->candidate_count++].function = function;
    ballot->candidates[i].votes++;
    ballot->argument = 0;
}

static void visit_vote(void *ctx, const struct ref *ref)
{
    struct ballot *ballot = ctx;
    const struct texts *texts = ballot->texts;
    size_t option;

    if (ref->kind == REF_CALL) {
        if (ballot->argument && ref->at - ballot->argument < CALL_NEAR)
            add_vote(ballot, ref->target);
        return;
    }
    option = SEARCH_FIRST(i, texts->option_count, texts->options[i] >= ref->target);
    if (option < texts->option_count && texts->options[option] == ref->target)
        ballot->argument = ref->at;
    if (texts->headline && ref->target == texts->headline)
        users_add(&ballot->of_headline, eh_frames_at(ballot->frames, ref->at));
}

/* --- verification --- */

struct root_search {
    const struct view *view;
    const struct eh_frames *frames;
    const struct ctl_tables *tables;
    unsigned depth; /* of functions that may still be followed */
    bool reached;
};

static void visit_to_root(void *ctx, const struct ref *ref)
{
    struct root_search *search = ctx;
    const struct ref_query query = {.kinds = REF_ADDRESS | REF_DATA | REF_CALL | REF_JUMP,
                                    .visit = visit_to_root,
                                    .ctx = search};
    const struct ctl_table *root = &search->tables->tables[0];
    const remote_addr above = search->tables->super_root;

    if (search->reached)
        return;
    if (ref->kind == REF_ADDRESS || ref->kind == REF_DATA) {
        search->reached = (ref->target >= root->start && ref->target < root->end) ||
                          (ref->target >= above && ref->target < above + CTL_NODE_SIZE);
        return;
    }
    if (search->depth == 0 || !eh_frames_begin_at(search->frames, ref->target))
        return;
    search->depth--;
    xrefs_visit_function(search->view, search->frames, eh_frames_from(search->frames, ref->target),
                         &query);
    search->depth++;
}

bool xrefs_reach_root(const struct view *view, const struct eh_frames *frames,
                      const struct ctl_tables *tables, remote_addr start)
{
    struct root_search search = {view, frames, tables, 3, false};

    visit_to_root(&search, &(struct ref){.at = start, .target = start, .kind = REF_CALL});
    return search.reached;
}

static const char *elect_mallctl(struct xrefs *xrefs, const struct view *view,
                                 const struct ctl_tables *tables, const struct ballot *ballot)
{
    unsigned next = 0;

    for (size_t i = 0; i < ballot->candidate_count; i++) {
        unsigned votes = ballot->candidates[i].votes;
        remote_addr function = ballot->candidates[i].function;
        if (votes <= next || !xrefs_reach_root(view, ballot->frames, tables, function))
            continue;
        if (votes > xrefs->votes) {
            next = xrefs->votes;
            xrefs->votes = votes;
            xrefs->mallctl = function;
        } else {
            next = votes;
        }
    }
    if (xrefs->votes < VOTES_MIN)
        return "no function is called with the names of its options";
    return next * 2 >= xrefs->votes ? "two functions may be its mallctl" : NULL;
}

struct callers {
    const struct ballot *ballot;
    struct users found, taken; /* taken: their address is taken */
};

static void visit_headline_caller(void *ctx, const struct ref *ref)
{
    struct callers *callers = ctx;
    const struct ballot *ballot = callers->ballot;
    size_t caller = eh_frames_at(ballot->frames, ref->at);

    if (eh_frames_begin_at(ballot->frames, ref->target) &&
        users_have(&ballot->of_headline, eh_frames_from(ballot->frames, ref->target)) &&
        !users_have(&ballot->of_headline, caller))
        users_add(&callers->found, caller);
}

static void visit_taken(void *ctx, const struct ref *ref)
{
    struct callers *callers = ctx;

    if (eh_frames_begin_at(callers->ballot->frames, ref->target))
        users_add(&callers->taken, eh_frames_from(callers->ballot->frames, ref->target));
}

/* Visits the code around the functions that print the report. */
static bool visit_around(const struct view *view, const struct ballot *ballot,
                         const struct ref_query *query)
{
    struct code_visit visit = {view, complete_query(view, query)};
    remote_addr start = eh_frames_start(ballot->frames, ballot->of_headline.list[0]), end;
    struct segment segment;

    if (!view_segment_at(view, start, &segment))
        return false;
    end = segment.end - start > REPORT_REACH ? start + REPORT_REACH : segment.end;
    start = start - segment.start > REPORT_REACH ? start - REPORT_REACH : segment.start;
    return view_scan(view, start, end, REF_OVERLAP, visit_code, &visit);
}

/*
 * malloc_stats_print is the only caller of the function that uses the headline
 * (stats_print). Compilers may also inline it into the handler that runs at exit,
 * whose address is taken for atexit(3).
 */
static remote_addr find_stats_print(const struct view *view, const struct ballot *ballot)
{
    struct callers callers = {.ballot = ballot};
    struct ref_query query = {
        .kinds = REF_CALL | REF_JUMP, .visit = visit_headline_caller, .ctx = &callers};
    size_t only = SIZE_MAX, count = 0;

    if (!ballot->of_headline.count || !visit_around(view, ballot, &query))
        return 0;
    if (callers.found.count == 1)
        return eh_frames_start(ballot->frames, callers.found.list[0]);
    for (size_t i = 0; i < callers.found.count; i++) {
        remote_addr start = eh_frames_start(ballot->frames, callers.found.list[i]);
        query = (struct ref_query){.kinds = REF_ADDRESS,
                                   .low = start,
                                   .high = start + 1,
                                   .visit = visit_taken,
                                   .ctx = &callers};
        if (!visit_around(view, ballot, &query))
            return 0;
    }
    /* The only caller whose address is not taken. */
    for (size_t i = 0; i < callers.found.count; i++) {
        if (users_have(&callers.taken, callers.found.list[i]))
            continue;
        only = callers.found.list[i];
        count++;
    }
    return count == 1 ? eh_frames_start(ballot->frames, only) : 0;
}

const char *xrefs_find(struct xrefs *xrefs, const struct view *view, const struct eh_frames *frames,
                       const struct texts *texts, const struct ctl_tables *tables)
{
    struct ballot ballot = {.frames = frames, .texts = texts};
    const struct ref_query query = {
        .kinds = REF_ADDRESS | REF_DATA | REF_CALL, .visit = visit_vote, .ctx = &ballot};

    memset(xrefs, 0, sizeof *xrefs);
    if (!xrefs_visit_code(view, &query))
        return "its code cannot be read";
    const char *why = elect_mallctl(xrefs, view, tables, &ballot);
    if (!why)
        xrefs->stats_print = find_stats_print(view, &ballot);
    return why;
}

/* --- values that functions of the tables return --- */

struct first_match {
    const struct view *view;
    char *out;
    size_t size;
    remote_addr found;
    bool several;
};

static void visit_version(void *ctx, const struct ref *ref)
{
    struct first_match *match = ctx;
    char text[VERSION_TEXT_MAX];
    struct segment segment;

    if (match->found || !view_segment_at(match->view, ref->target, &segment) ||
        segment.flags & PF_W || !view_read_string(match->view, ref->target, text, sizeof text))
        return;
    size_t major = strspn(text, "0123456789");
    if (!major || text[major] != '.' || strlen(text) >= match->size)
        return;
    memcpy(match->out, text, strlen(text) + 1);
    match->found = ref->target;
}

bool xrefs_version(const struct view *view, const struct eh_frames *frames,
                   const struct ctl_tables *tables, char *out, size_t size)
{
    struct first_match match = {view, out, size, 0, false};
    const struct ref_query query = {.kinds = REF_ADDRESS, .visit = visit_version, .ctx = &match};
    remote_addr start = ctl_function(tables, "version");

    return start && eh_frames_begin_at(frames, start) &&
           xrefs_visit_function(view, frames, eh_frames_from(frames, start), &query) && match.found;
}

static void visit_constant(void *ctx, const struct ref *ref)
{
    struct first_match *match = ctx;
    struct segment segment;

    if (!view_segment_at(match->view, ref->target, &segment) || segment.flags & (PF_W | PF_X) ||
        (match->found && match->found == ref->target))
        return;
    match->several |= match->found != 0;
    match->found = ref->target;
}

bool xrefs_constant(const struct view *view, const struct eh_frames *frames,
                    const struct ctl_tables *tables, const char *path, char *out, size_t size)
{
    struct first_match match = {.view = view};
    const struct ref_query query = {.kinds = REF_ADDRESS, .visit = visit_constant, .ctx = &match};
    remote_addr start = ctl_function(tables, path);

    return start && eh_frames_begin_at(frames, start) &&
           xrefs_visit_function(view, frames, eh_frames_from(frames, start), &query) &&
           match.found && !match.several && view_read_string(view, match.found, out, size);
}

bool xrefs_version_in(const struct view *view, remote_addr start, remote_addr end, char *out,
                      size_t size)
{
    struct first_match match = {view, out, size, 0, false};
    const struct ref_query query = {.kinds = REF_ADDRESS, .visit = visit_version, .ctx = &match};

    return visit_range(view, start, end, &query) && match.found;
}

/* .bss has no bytes in the file: only the program headers show it. */
bool xrefs_is_variable(const struct view *view, remote_addr addr)
{
    bool found = false;

    for (size_t i = 0; i < view->image.phdr_count; i++) {
        const Elf64_Phdr *ph = &view->image.phdrs[i];
        uint64_t offset = addr - (ph->p_vaddr + view->image.bias);
        if (offset >= ph->p_memsz)
            continue;
        if (ph->p_type == PT_GNU_RELRO) /* the global offset table */
            return false;
        found |= ph->p_type == PT_LOAD && ph->p_flags & PF_W;
    }
    return found;
}

static bool visit_syscall(void *ctx, const struct piece *piece)
{
    return !(*(bool *)ctx = refs_make_syscall(piece->bytes, piece->len));
}

bool xrefs_makes_syscall(const struct view *view, const struct eh_frames *frames, size_t function)
{
    bool found = false;

    view_scan(view, eh_frames_start(frames, function), eh_frames_end(frames, function), 1,
              visit_syscall, &found);
    return found;
}
