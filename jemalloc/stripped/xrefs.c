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

static bool is_option(const unsigned char *text, size_t len)
{
    size_t i = 4;

    while (i < len && i < OPTION_MAX &&
           ((text[i] >= 'a' && text[i] <= 'z') || text[i] == '_' || text[i] == '.'))
        i++;
    return i > 4 && i < len && text[i] == '\0';
}

static void take_options(struct texts *texts, const struct piece *piece)
{
    const unsigned char *at = piece->bytes, *end = piece->bytes + piece->len;

    while (texts->option_count < TEXTS_MAX &&
           (at = memmem(at, (size_t)(end - at), "opt.", 4)) != NULL) {
        size_t offset = (size_t)(at - piece->bytes);
        if (offset >= piece->fresh)
            return;
        if (is_option(at, (size_t)(end - at)))
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
    const struct ctl_tables *tables;
    remote_addr argument; /* where the name of an option was last made an argument; 0: nowhere */
    struct {
        remote_addr function;
        unsigned votes;
    } candidates[CANDIDATES_MAX];
    size_t candidate_count;
    struct users of_root, of_headline;
};

static bool is_option_text(const struct texts *texts, remote_addr target)
{
    size_t low = SEARCH_FIRST(i, texts->option_count, texts->options[i] >= target);
    return low < texts->option_count && texts->options[low] == target;
}

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

static bool is_root_table(const struct ctl_tables *tables, remote_addr target)
{
    const struct ctl_table *root = &tables->tables[0];

    return (target >= root->start && target < root->end) ||
           (target >= tables->super_root && target < tables->super_root + 40);
}

static void visit_vote(void *ctx, const struct ref *ref)
{
    struct ballot *ballot = ctx;

    if (ref->kind == REF_CALL) {
        if (ballot->argument && ref->at - ballot->argument < CALL_NEAR)
            add_vote(ballot, ref->target);
        return;
    }
    if (is_option_text(ballot->texts, ref->target))
        ballot->argument = ref->at;
    if (is_root_table(ballot->tables, ref->target))
        users_add(&ballot->of_root, eh_frames_at(ballot->frames, ref->at));
    if (ballot->texts->headline && ref->target == ballot->texts->headline)
        users_add(&ballot->of_headline, eh_frames_at(ballot->frames, ref->at));
}

/* --- verification --- */

struct root_reach {
    const struct view *view;
    const struct eh_frames *frames;
    const struct users *users;
    unsigned depth;
    bool reached;
};

static void visit_reach(void *ctx, const struct ref *ref)
{
    struct root_reach *reach = ctx;
    size_t function;

    if (reach->reached || !eh_frames_begin_at(reach->frames, ref->target))
        return;
    function = eh_frames_from(reach->frames, ref->target);
    reach->reached = users_have(reach->users, function);
    if (reach->reached || reach->depth == 0)
        return;
    struct ref_query query = {.kinds = REF_CALL | REF_JUMP, .visit = visit_reach, .ctx = reach};
    reach->depth--;
    xrefs_visit_function(reach->view, reach->frames, function, &query);
    reach->depth++;
}

/* True if the function uses the root, directly or within two calls (ctl_byname). */
static bool leads_to_root(const struct view *view, const struct ballot *ballot, remote_addr start)
{
    struct root_reach reach = {view, ballot->frames, &ballot->of_root, 2, false};

    visit_reach(&reach, &(struct ref){.at = start, .target = start, .kind = REF_CALL});
    return reach.reached;
}

struct root_search {
    const struct view *view;
    const struct eh_frames *frames;
    const struct ctl_tables *tables;
    unsigned depth;
    bool reached;
};

static void follow_to_root(struct root_search *search, size_t function);

static void visit_to_root(void *ctx, const struct ref *ref)
{
    struct root_search *search = ctx;

    if (search->reached)
        return;
    if (ref->kind == REF_ADDRESS || ref->kind == REF_DATA)
        search->reached = is_root_table(search->tables, ref->target);
    else if (search->depth > 0 && eh_frames_begin_at(search->frames, ref->target))
        follow_to_root(search, eh_frames_from(search->frames, ref->target));
}

static void follow_to_root(struct root_search *search, size_t function)
{
    const struct ref_query query = {.kinds = REF_ADDRESS | REF_DATA | REF_CALL | REF_JUMP,
                                    .visit = visit_to_root,
                                    .ctx = search};

    search->depth--;
    xrefs_visit_function(search->view, search->frames, function, &query);
    search->depth++;
}

bool xrefs_reach_root(const struct view *view, const struct eh_frames *frames,
                      const struct ctl_tables *tables, remote_addr start)
{
    struct root_search search = {view, frames, tables, 3, false};

    if (eh_frames_begin_at(frames, start))
        follow_to_root(&search, eh_frames_from(frames, start));
    return search.reached;
}

static const char *elect_mallctl(struct xrefs *xrefs, const struct view *view,
                                 const struct ballot *ballot)
{
    unsigned next = 0;

    for (size_t i = 0; i < ballot->candidate_count; i++) {
        unsigned votes = ballot->candidates[i].votes;
        if (votes <= next || !leads_to_root(view, ballot, ballot->candidates[i].function))
            continue;
        if (votes > xrefs->votes) {
            next = xrefs->votes;
            xrefs->votes = votes;
            xrefs->mallctl = ballot->candidates[i].function;
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

/* Returns the only caller whose address is not taken; 0: none, or several. */
static remote_addr only_caller(const struct callers *callers)
{
    size_t only = SIZE_MAX, count = 0;

    for (size_t i = 0; i < callers->found.count; i++) {
        if (users_have(&callers->taken, callers->found.list[i]))
            continue;
        only = callers->found.list[i];
        count++;
    }
    return count == 1 ? eh_frames_start(callers->ballot->frames, only) : 0;
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
    return only_caller(&callers);
}

const char *xrefs_find(struct xrefs *xrefs, const struct view *view, const struct eh_frames *frames,
                       const struct texts *texts, const struct ctl_tables *tables)
{
    struct ballot ballot = {.frames = frames, .texts = texts, .tables = tables};
    const struct ref_query query = {
        .kinds = REF_ADDRESS | REF_DATA | REF_CALL, .visit = visit_vote, .ctx = &ballot};

    memset(xrefs, 0, sizeof *xrefs);
    if (!xrefs_visit_code(view, &query))
        return "its code cannot be read";
    const char *why = elect_mallctl(xrefs, view, &ballot);
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

static bool visit_ctl(const struct view *view, const struct eh_frames *frames,
                      const struct ctl_tables *tables, const char *path,
                      const struct ref_query *query)
{
    remote_addr start = ctl_function(tables, path);

    return start && eh_frames_begin_at(frames, start) &&
           xrefs_visit_function(view, frames, eh_frames_from(frames, start), query);
}

bool xrefs_version(const struct view *view, const struct eh_frames *frames,
                   const struct ctl_tables *tables, char *out, size_t size)
{
    struct first_match match = {view, out, size, 0};
    const struct ref_query query = {.kinds = REF_ADDRESS, .visit = visit_version, .ctx = &match};

    return visit_ctl(view, frames, tables, "version", &query) && match.found;
}

bool xrefs_version_in(const struct view *view, remote_addr start, remote_addr end, char *out,
                      size_t size)
{
    struct first_match match = {view, out, size, 0};
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
