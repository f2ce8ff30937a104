/* The table of jemalloc's names: lookups and refusals. */
#include "check.h"
#include "jemalloc/hooks.h"
#include "jemalloc/names.h"

#include <string.h>

static const struct version any = {0};

static struct build build_of(const char *version, bool prof)
{
    struct build build = {
        .config_prof = FACT_YES, .opt_prof = prof ? FACT_YES : FACT_NO, .config_stats = FACT_YES};

    build.version = version_parse(version);
    return build;
}

static enum name_refusal judge(const char *text, bool has_value, const char *version, bool prof)
{
    struct build build = build_of(version, prof);
    const struct ctl_name *name = names_find(text, build.version);

    if (!CHECK(name != NULL))
        return NAME_OTHER_VERSION;
    return name_judge(name, text, name_use(name, has_value), &build);
}

static void test_table(void)
{
    for (size_t i = 0; i < ctl_names_count; i++) {
        const struct ctl_name *name = &ctl_names[i];
        bool good = strlen(name->pattern) < CTL_NAME_MAX && name->access != 0 &&
                    name->first >= VERSION_NUMBER(4, 0, 0) &&
                    (name->last == 0 || name->last >= name->first) &&
                    (name->type != CTL_STRUCT || name->read != NAME_ALLOWED) &&
                    (name->type != CTL_STRUCT || !(name->access & NAME_WRITE) ||
                     name->write != NAME_ALLOWED) &&
                    (name->type != CTL_POINTER || !(name->access & NAME_WRITE) ||
                     name->write != NAME_ALLOWED) &&
                    (name->type == CTL_VOID) == (name->access == NAME_ACT);
        if (!CHECK(good))
            fprintf(stderr, "  %s\n", name->pattern);
        for (size_t j = 0; j < i; j++) /* the same name twice: for separate ranges of versions */
            if (strcmp(name->pattern, ctl_names[j].pattern) == 0)
                CHECK((name->last && name->last < ctl_names[j].first) ||
                      (ctl_names[j].last && ctl_names[j].last < name->first));
    }
}

static void test_find(void)
{
    const struct ctl_name *name = names_find("stats.arenas.4096.bins.12.nmalloc", any);

    CHECK(name && strcmp(name->pattern, "stats.arenas.<i>.bins.<i>.nmalloc") == 0);
    CHECK(name && name->type == CTL_UINT64);
    CHECK(names_find("opt.prof", any) && names_find("version", any));
    CHECK(!names_find("", any) && !names_find(".", any) && !names_find("opt", any));
    CHECK(!names_find("opt.prof.", any) && !names_find("opt.pro", any));
    CHECK(!names_find("opt.prof.active", any) && !names_find("Opt.prof", any));
    CHECK(!names_find("arena.<i>.purge", any) && !names_find("arena..purge", any));
    CHECK(!names_find("arena.-1.purge", any) && !names_find("arena.65536.purge", any));
    CHECK(!names_find("arena.0x1.purge", any) && !names_find("arena.4294967296.purge", any));
    CHECK(names_find("arena.65535.purge", any) && names_find("arena.0.purge", any));
    CHECK(names_begin("stats") && names_begin("stats.arenas.3") && names_begin("opt"));
    CHECK(!names_begin("") && !names_begin("opt.prof") && !names_begin("sta"));
}

static void test_versions(void)
{
    struct version old = version_parse("4.5.0"), last = version_parse("5.3.1");
    const struct ctl_name *before = names_find("opt.thp", old),
                          *after = names_find("opt.thp", last);

    CHECK(before && before->type == CTL_BOOL && after && after->type == CTL_STRING);
    CHECK(judge("prof.prefix", true, "5.2.1", true) == NAME_OTHER_VERSION);
    CHECK(judge("prof.prefix", true, "5.3.0", true) == NAME_ALLOWED);
    CHECK(judge("arena.0.lg_dirty_mult", false, "5.0.0", true) == NAME_OTHER_VERSION);
    CHECK(judge("arena.0.lg_dirty_mult", false, "4.5.0", true) == NAME_ALLOWED);
    /* A tree between two releases may have names of the next one, not names that are gone. */
    CHECK(judge("arena.0.name", false, "5.3.0-0-g1", true) == NAME_OTHER_VERSION);
    CHECK(judge("arena.0.name", false, "5.3.0-185-g1", true) == NAME_ALLOWED);
    CHECK(judge("stats.cactive", false, "5.0.1-3-g1", true) == NAME_OTHER_VERSION);
}

static enum ctl_type type_in(const char *text, const char *version)
{
    const struct ctl_name *name = names_find(text, version_parse(version));

    return name && name_in_version(name, version_parse(version)) ? name->type : CTL_STRUCT;
}

/* src/ctl.c at each tag. */
static void test_types_of_versions(void)
{
    CHECK(type_in("opt.narenas", "4.0.0") == CTL_SIZE);
    CHECK(type_in("opt.narenas", "4.0.4") == CTL_SIZE);
    CHECK(type_in("opt.narenas", "4.1.0") == CTL_UNSIGNED);
    CHECK(type_in("opt.narenas", "5.3.1") == CTL_UNSIGNED);
    CHECK(type_in("opt.thp", "4.5.0") == CTL_BOOL);
    CHECK(type_in("opt.thp", "5.0.1") == CTL_STRUCT); /* it has none */
    CHECK(type_in("opt.thp", "5.1.0") == CTL_STRING);
    CHECK(type_in("config.thp", "5.0.1") == CTL_BOOL);
    CHECK(type_in("opt.confirm_conf", "5.2.0") == CTL_STRUCT);
    CHECK(type_in("opt.confirm_conf", "5.2.1") == CTL_BOOL);
    CHECK(type_in("config.opt_safety_checks", "5.2.0") == CTL_STRUCT);
    CHECK(type_in("stats.arenas.0.bins.3.nonfull_slabs", "5.2.1") == CTL_SIZE);
    CHECK(type_in("stats.arenas.0.bins.3.nonfull_slabs", "5.2.0") == CTL_STRUCT);
}

/* jemalloc 4.0 reads one element past the end of an array that is as long as there are arenas. */
static void test_arenas_of_4_0(void)
{
    struct build build = build_of("4.0.4", true);
    const struct ctl_name *mult = names_find("arena.11.lg_dirty_mult", build.version),
                          *dss = names_find("arena.11.dss", build.version);

    CHECK(name_judge(mult, "arena.0.lg_dirty_mult", NAME_READ, &build) == NAME_REFUSE_INDEX);
    build.arenas = 11;
    CHECK(name_judge(mult, "arena.10.lg_dirty_mult", NAME_READ, &build) == NAME_ALLOWED);
    CHECK(name_judge(mult, "arena.11.lg_dirty_mult", NAME_READ, &build) == NAME_REFUSE_INDEX);
    CHECK(name_judge(mult, "arena.11.lg_dirty_mult", NAME_WRITE, &build) == NAME_REFUSE_INDEX);
    CHECK(name_judge(dss, "arena.11.dss", NAME_READ, &build) == NAME_ALLOWED);
    CHECK(judge("arena.11.lg_dirty_mult", false, "4.1.0", true) == NAME_ALLOWED);
}

/* The development branch of May 2026 calls itself 5.3.1-N. */
static void test_next_release(void)
{
    static const char *const names[] = {
        "stats.pinned",
        "stats.arenas.0.pinned",
        "stats.arenas.0.extents.3.npinned",
        "stats.arenas.0.extents.3.pinned_bytes",
        "stats.arenas.0.mutexes.extents_pinned.max_num_thds",
        "stats.arenas.0.hpa_shard.alloc.8.total_elapsed_ns_per_ps",
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        CHECK(judge(names[i], false, "5.3.1-47-g295e4894", true) == NAME_ALLOWED);
        CHECK(judge(names[i], false, "5.4.0-0-g1", true) == NAME_ALLOWED);
        CHECK(judge(names[i], false, "5.3.1-0-g1", true) == NAME_OTHER_VERSION);
    }
    CHECK(judge("opt.hpa_sec_batch_fill_extra", false, "5.3.1", true) == NAME_ALLOWED);
    CHECK(judge("opt.hpa_sec_batch_fill_extra", false, "5.4.0", true) == NAME_OTHER_VERSION);
    CHECK(judge("experimental.hooks.install", true, "5.4.0", true) == NAME_OTHER_VERSION);
}

static void test_directions(void)
{
    CHECK(judge("opt.prof", true, "5.3.0", true) == NAME_READ_ONLY);
    CHECK(judge("prof.prefix", false, "5.3.0", true) == NAME_WRITE_ONLY); /* crashes 5.3.0 */
    CHECK(judge("arena.0.purge", true, "5.3.0", true) == NAME_TAKES_NO_VALUE);
    CHECK(judge("arena.0.purge", false, "5.3.0", true) == NAME_ALLOWED);
    CHECK(judge("prof.reset", false, "5.3.0", true) == NAME_ALLOWED);
    CHECK(judge("prof.reset", true, "5.3.0", true) == NAME_ALLOWED);
    CHECK(judge("epoch", false, "5.3.0", true) == NAME_ALLOWED);
    CHECK(judge("epoch", true, "5.3.0", true) == NAME_ALLOWED);
}

/* Each of these has crashed a process, or would interrupt its work. */
static void test_crashers(void)
{
    static const char *const versions[] = {"4.0.4", "4.5.0", "5.0.1", "5.2.1", "0.0.0-0-g0"};

    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        const char *version = versions[i];
        CHECK(judge("thread.prof.active", false, version, false) == NAME_REFUSE_PROF_THREAD);
        CHECK(judge("thread.prof.name", false, version, false) == NAME_REFUSE_PROF_THREAD);
        CHECK(judge("thread.prof.active", false, version, true) == NAME_ALLOWED);
        CHECK(judge("prof.reset", false, version, false) == NAME_NEEDS_PROF);
        CHECK(judge("prof.active", true, version, false) == NAME_NEEDS_PROF);
        CHECK(judge("prof.active", false, version, false) == NAME_ALLOWED);
    }
    CHECK(judge("thread.prof.active", false, "5.3.0", false) == NAME_ALLOWED);
    CHECK(judge("arena.0.reset", false, "5.3.0", true) == NAME_REFUSE_FREES);
    CHECK(judge("arena.0.destroy", false, "5.3.0", true) == NAME_REFUSE_FREES);
    CHECK(judge("background_thread", true, "5.3.0", true) == NAME_REFUSE_THREADS);
    CHECK(judge("background_thread", false, "5.3.0", true) == NAME_ALLOWED);
    CHECK(judge("max_background_threads", true, "5.3.0", true) == NAME_REFUSE_THREADS);
    CHECK(judge("arena.0.extent_hooks", true, "5.3.0", true) == NAME_REFUSE_HOOK);
    CHECK(judge("arena.0.extent_hooks", false, "5.3.0", true) == NAME_ALLOWED);
    CHECK(judge("experimental.hooks.prof_dump", true, "5.3.0", true) == NAME_REFUSE_HOOK);
    CHECK(judge("experimental.hooks.install", true, "5.3.0", true) == NAME_REFUSE_HOOK);
    CHECK(judge("experimental.utilization.query", false, "5.3.0", true) == NAME_REFUSE_STRUCT);
    CHECK(judge("thread.arena", true, "5.3.0", true) == NAME_REFUSE_ANY_THREAD);
    CHECK(judge("thread.tcache.flush", false, "5.3.0", true) == NAME_REFUSE_ANY_THREAD);
    CHECK(judge("thread.idle", false, "5.3.0", true) == NAME_REFUSE_ANY_THREAD);
    CHECK(judge("tcache.destroy", true, "5.3.0", true) == NAME_REFUSE_TCACHE);
    CHECK(judge("arenas.create", false, "5.3.0", true) == NAME_REFUSE_CREATES);
    CHECK(judge("prof.dump", true, "5.3.0", true) == NAME_REFUSE_DUMP);
    CHECK(judge("prof.dump", false, "5.3.0", true) == NAME_REFUSE_DUMP);
}

/* Without statistics jemalloc has no record of an arena's start, but reads it. */
static void test_without_statistics(void)
{
    static const char *const versions[] = {"5.0.0", "5.2.1", "5.3.1", "5.3.1-99-g1", "0.0.0-0-g0"};
    static const char *const uptimes[] = {"stats.arenas.0.uptime", "stats.arenas.4096.uptime"};

    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        struct build build = build_of(versions[i], true);
        for (size_t j = 0; j < ARRAY_LEN(uptimes); j++) {
            const struct ctl_name *name = names_find(uptimes[j], build.version);
            build.config_stats = FACT_NO;
            CHECK(name_judge(name, uptimes[j], NAME_READ, &build) == NAME_REFUSE_STATS);
            build.config_stats = FACT_YES;
            CHECK(name_judge(name, uptimes[j], NAME_READ, &build) == NAME_ALLOWED);
        }
    }
    CHECK(judge("thread.tcache.max", false, "5.3.1", true) == NAME_REFUSE_NO_TCACHE);
    CHECK(judge("thread.tcache.max", true, "5.3.1", true) == NAME_REFUSE_ANY_THREAD);
}

/* arena_get has no check of its own; 4096 and 4097 are beyond the array. */
static void test_arena_indices(void)
{
    static const char *const unsafe[] = {"arena.4096.dirty_decay_ms",
                                         "arena.4096.muzzy_decay_ms",
                                         "arena.4095.purge",
                                         "arena.4097.purge",
                                         "arena.4097.decay",
                                         "arena.9999.dss",
                                         "arena.4096.retain_grow_limit"};

    for (size_t i = 0; i < ARRAY_LEN(unsafe); i++)
        CHECK(judge(unsafe[i], false, "5.3.0", true) == NAME_REFUSE_INDEX);
    CHECK(judge("arena.4096.purge", false, "5.3.0", true) == NAME_ALLOWED);
    CHECK(judge("arena.4094.dirty_decay_ms", false, "5.3.0", true) == NAME_ALLOWED);
    CHECK(judge("stats.arenas.4096.pactive", false, "5.3.0", true) == NAME_ALLOWED);
}

/* The length of an array is not an index into it, whatever jemalloc accepts. */
static void test_class_indices(void)
{
    struct build build = build_of("5.3.0", true);
    static const struct {
        const char *text;
        bool allowed;
    } cases[] = {
        {"arenas.bin.35.size", true},
        {"arenas.bin.36.size", false},
        {"arenas.lextent.195.size", true},
        {"arenas.lextent.196.size", false},
        {"stats.arenas.36.bins.35.nmalloc", true},
        {"stats.arenas.0.bins.36.nmalloc", false},
        {"stats.arenas.0.bins.36.mutex.num_ops", false},
        {"stats.arenas.0.lextents.196.nmalloc", false},
        {"stats.arenas.0.extents.198.ndirty", true}, /* checked by jemalloc */
    };

    build.bins = 36;
    build.large = 196;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct ctl_name *name = names_find(cases[i].text, build.version);
        enum name_refusal wanted = cases[i].allowed ? NAME_ALLOWED : NAME_REFUSE_CLASS;
        CHECK(name && name_judge(name, cases[i].text, NAME_READ, &build) == wanted);
    }
    CHECK(judge("arenas.bin.36.size", false, "5.3.0", true) == NAME_ALLOWED); /* not known */
    build = build_of("4.5.0", true);
    build.runs = 3;
    CHECK(name_judge(names_find("arenas.lrun.3.size", build.version), "arenas.lrun.3.size",
                     NAME_READ, &build) == NAME_REFUSE_CLASS);
}

/* The arenas whose hooks a use may run; NO_HOOKS: none. */
enum { NO_HOOKS = -9 };

static int hooks_of(const char *text, bool has_value, const char *version)
{
    const struct ctl_name *name = names_find(text, version_parse(version));
    int scope;

    return name_hooks(name, text, name_use(name, has_value), &scope) ? scope : NO_HOOKS;
}

static void test_hooks(void)
{
    CHECK(hooks_of("arena.7.purge", false, "5.3.0") == 7);
    CHECK(hooks_of("arena.4096.decay", false, "5.3.0") == 4096);
    CHECK(hooks_of("arena.0.dirty_decay_ms", true, "5.3.0") == 0);
    CHECK(hooks_of("arena.0.dirty_decay_ms", false, "5.3.0") == NO_HOOKS);
    CHECK(hooks_of("arena.3.muzzy_decay_ms", true, "5.0.0") == 3);
    CHECK(hooks_of("arena.3.decay_time", true, "4.5.0") == 3);
    CHECK(hooks_of("arena.3.lg_dirty_mult", true, "4.0.4") == 3);
    CHECK(hooks_of("prof.reset", false, "5.3.0") == HOOKS_AUTOMATIC);
    CHECK(hooks_of("prof.reset", true, "5.3.0") == HOOKS_AUTOMATIC);
    CHECK(hooks_of("thread.prof.name", false, "5.3.0") == HOOKS_AUTOMATIC);
    CHECK(hooks_of("thread.prof.active", false, "5.2.1") == HOOKS_AUTOMATIC);
    CHECK(hooks_of("prof.active", true, "5.3.0") == NO_HOOKS);
    CHECK(hooks_of("arena.0.extent_hooks", false, "5.3.0") == NO_HOOKS);
    CHECK(hooks_of("arenas.dirty_decay_ms", true, "5.3.0") == NO_HOOKS);
    CHECK(hooks_of("epoch", true, "5.3.0") == NO_HOOKS);
}

static bool suggests(const char *text, const char *version, const char *wanted)
{
    char out[CTL_NAME_MAX] = "";
    bool found = names_suggest(text, version_parse(version), out);

    return wanted ? found && strcmp(out, wanted) == 0 : !found;
}

static void test_suggestions(void)
{
    CHECK(suggests("prof.actve", "", "prof.active"));
    CHECK(suggests("Prof.active", "", "prof.active"));
    CHECK(suggests("lg_sample", "", "prof.lg_sample"));
    CHECK(suggests("stats.alocated", "5.3.0", "stats.allocated"));
    CHECK(suggests("stats.arenas.17.pactiv", "5.3.0", "stats.arenas.17.pactive"));
    CHECK(suggests("arena.4096.purg", "5.3.0", "arena.4096.purge"));
    CHECK(suggests("prof.prefx", "5.2.1", "prof.reset") ||
          !suggests("prof.prefx", "5.2.1", "prof.prefix"));
    CHECK(suggests("", "", NULL) && suggests("qqqqqqqqqqqqqqqqqqqqqqqqqqqq", "", NULL));
}

static bool covers(const char *pattern, const char *wildcard, const char *wanted)
{
    char out[CTL_NAME_MAX] = "";

    for (size_t i = 0; i < ctl_names_count; i++)
        if (strcmp(ctl_names[i].pattern, pattern) == 0)
            return name_covered(&ctl_names[i], wildcard, out) ? wanted && strcmp(out, wanted) == 0
                                                              : !wanted;
    return false;
}

static void test_wildcards(void)
{
    CHECK(covers("opt.prof", "*", "opt.prof") && covers("opt.prof", "opt.*", "opt.prof"));
    CHECK(covers("opt.prof", "*prof", "opt.prof") && covers("opt.prof", "config.*", NULL));
    CHECK(covers("arena.<i>.purge", "*", NULL) && covers("arena.<i>.purge", "arena.*", NULL));
    CHECK(covers("arena.<i>.purge", "arena.3.*", "arena.3.purge"));
    CHECK(covers("stats.arenas.<i>.bins.<i>.nmalloc", "stats.arenas.0.*", NULL));
    CHECK(covers("stats.arenas.<i>.bins.<i>.nmalloc", "stats.arenas.0.bins.7.*",
                 "stats.arenas.0.bins.7.nmalloc"));
    CHECK(covers("opt.prof", "", NULL) && covers("opt.prof", "[", NULL));
}

/* Success is the value read back, unless jemalloc rounds it or cannot be asked. */
static void test_kept(void)
{
    struct access access = {.entry = names_find("prof.active", any),
                            .type = CTL_BOOL,
                            .use = NAME_WRITE,
                            .value = 1,
                            .has_now = true,
                            .now_value = 1};

    CHECK(access_kept(&access));
    access.now_value = 0;
    CHECK(!access_kept(&access));
    access.has_now = false;
    CHECK(access_kept(&access));
    access.has_now = true;
    access.entry = names_find("epoch", any);
    CHECK(access_kept(&access));
    access = (struct access){.entry = names_find("arena.0.dss", any),
                             .type = CTL_STRING,
                             .use = NAME_WRITE,
                             .text = "primary",
                             .has_now = true};
    CHECK(!access_kept(&access)); /* a text that could not be read */
    access.now_text = (char[]){"primary"};
    CHECK(access_kept(&access));
    access.now_text = (char[]){"secondary"};
    CHECK(!access_kept(&access));
}

int main(void)
{
    test_table();
    test_find();
    test_versions();
    test_types_of_versions();
    test_next_release();
    test_arenas_of_4_0();
    test_directions();
    test_crashers();
    test_without_statistics();
    test_arena_indices();
    test_hooks();
    test_class_indices();
    test_suggestions();
    test_wildcards();
    test_kept();
    return check_result();
}
