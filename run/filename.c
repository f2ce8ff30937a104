#include "run/filename.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

static const char directives[] = "npPtrh%";

void filename_facts(struct filename_facts *facts, const struct target *target)
{
    struct utsname host;

    memset(facts, 0, sizeof *facts);
    snprintf(facts->name, sizeof facts->name, "%s", target->stat.comm);
    if (uname(&host) == 0)
        snprintf(facts->host, sizeof facts->host, "%.*s", FILENAME_TEXT_MAX - 1, host.nodename);
    facts->pid = target->pid;
    facts->ns_pid = target->status.ns_pid ? target->status.ns_pid : target->pid;
    facts->time = time(NULL);
    facts->rss_bytes = target_rss(target);
}

void filename_facts_then(struct filename_facts *facts, uint64_t time_ns, uint64_t rss_bytes)
{
    facts->time = (time_t)(time_ns / 1000000000);
    facts->rss_bytes = rss_bytes;
}

/* Returns the letter of the next directive, with *text after it; '\0': no more. */
static char next_directive(const char **text)
{
    const char *at = strchr(*text, '%');

    if (!at) {
        *text += strlen(*text);
        return '\0';
    }
    *text = at[1] ? at + 2 : at + 1;
    return at[1] ? at[1] : ' ';
}

bool filename_has_directives(const char *template)
{
    return strchr(template, '%') != NULL;
}

enum filename_flaw filename_check(const char *template)
{
    const char *last = strrchr(template, '/'), *text = template;
    char letter;

    if (!*template)
        return FILENAME_EMPTY;
    if (strlen(template) >= FILENAME_MAX_BYTES)
        return FILENAME_TOO_LONG;
    while ((letter = next_directive(&text))) {
        if (!strchr(directives, letter))
            return FILENAME_DIRECTIVE;
        if (last && text <= last && strchr("tr", letter))
            return FILENAME_VARIES;
    }
    return FILENAME_GOOD;
}

/* A text that is being built; len == size once something did not fit. */
struct text {
    char *out;
    size_t size, len;
};

static void put(struct text *text, const char *bytes, size_t len)
{
    if (len < text->size - text->len)
        memcpy(text->out + text->len, bytes, len);
    text->len = len < text->size - text->len ? text->len + len : text->size;
}

/*
 * Keeps only letters, digits and some signs that mean nothing to a shell, so that a script
 * that forgets to quote a name runs no command of the process's choice.
 */
static void put_clean(struct text *text, const char *word)
{
    static const char kept[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+-@";

    for (const char *p = word; *p; p++) {
        bool first = p == word && (*p == '.' || *p == '-');
        put(text, strchr(kept, *p) && !first ? p : "_", 1);
    }
    if (!*word)
        put(text, "_", 1);
}

const char *filename_clean(const char *name, char out[FILENAME_TEXT_MAX])
{
    struct text text = {out, FILENAME_TEXT_MAX, 0};

    put_clean(&text, name);
    out[text.len < FILENAME_TEXT_MAX ? text.len : FILENAME_TEXT_MAX - 1] = '\0';
    return out;
}

static void put_directive(struct text *text, char letter, const struct filename_facts *facts)
{
    char word[32] = "%";
    struct tm tm;

    switch (letter) {
    case 'n':
        put_clean(text, facts->name);
        return;
    case 'h':
        put_clean(text, facts->host);
        return;
    case 'p':
        snprintf(word, sizeof word, "%d", facts->pid);
        break;
    case 'P':
        snprintf(word, sizeof word, "%d", facts->ns_pid);
        break;
    case 't':
        if (!gmtime_r(&facts->time, &tm) || !strftime(word, sizeof word, "%Y%m%dT%H%M%SZ", &tm))
            strcpy(word, "_");
        break;
    case 'r': /* "412MiB", "1.9GiB" */
        if (facts->rss_bytes < (uint64_t)10 << 30)
            snprintf(word, sizeof word, "%lluMiB", (unsigned long long)(facts->rss_bytes >> 20));
        else
            snprintf(word, sizeof word, "%.1fGiB", (double)facts->rss_bytes / (1 << 30));
        break;
    }
    put(text, word, strlen(word));
}

/* Puts an expanded template, and terminates it with a NUL; false if it is too long. */
static bool put_template(struct text *text, const char *template,
                         const struct filename_facts *facts, const char *extension)
{
    for (const char *p = template; *p;) {
        const char *end = strchr(p, '%');
        size_t plain = end ? (size_t)(end - p) : strlen(p);
        put(text, p, plain);
        p += plain;
        if (*p && next_directive(&p))
            put_directive(text, p[-1], facts);
    }
    put(text, extension, strlen(extension));
    if (text->len >= text->size)
        return false;
    text->out[text->len] = '\0';
    return true;
}

bool filename_is_directory(const char *template)
{
    size_t len = strlen(template);
    struct stat st;

    return len && (template[len - 1] == '/' || (stat(template, &st) == 0 && S_ISDIR(st.st_mode)));
}

bool filename_is_of_each(const char *template)
{
    const char *text = template;
    char letter;

    while ((letter = next_directive(&text)))
        if (letter == 'p')
            return true;
    return filename_is_directory(template);
}

bool filename_expand(const char *template, const char *extension,
                     const struct filename_facts *facts, char *out, size_t size)
{
    struct text text = {out, size, 0};

    if (!put_template(&text, template, facts, ""))
        return false;
    if (text.len > 0 && !filename_is_directory(out))
        return true;
    if (text.len > 0 && out[text.len - 1] != '/')
        put(&text, "/", 1);
    return put_template(&text, FILENAME_DEFAULT, facts, extension);
}

/* Returns the extension of a path, such as ".pb.gz"; its end if it has none. */
static size_t extension_at(const char *path)
{
    const char *name = text_base_name(path), *dot = strrchr(name, '.');

    if (dot && strcmp(dot, ".gz") == 0)
        for (const char *p = dot - 1; p > name; p--)
            if (*p == '.') {
                dot = p;
                break;
            }
    return dot && dot != name ? (size_t)(dot - path) : strlen(path);
}

bool filename_mark(const char *path, const char *word, char *out, size_t size)
{
    size_t at = extension_at(path);
    int n = snprintf(out, size, "%.*s-%s%s", (int)at, path, word, path + at);

    return n >= 0 && (size_t)n < size;
}

bool filename_number(const char *path, unsigned number, char *out, size_t size)
{
    char word[16];
    int n;

    snprintf(word, sizeof word, "%u", number);
    if (number)
        return filename_mark(path, word, out, size);
    n = snprintf(out, size, "%s", path);
    return n >= 0 && (size_t)n < size;
}
