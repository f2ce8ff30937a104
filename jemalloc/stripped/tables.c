#include "jemalloc/stripped/tables.h"

#include <string.h>

enum { CHILDREN_MAX = 512, PARENTS_MAX = 16, ANCHORS_MAX = 64 };

static const char anchor_text[] = "thread_active_init";

/* --- the anchor --- */

struct anchor_search {
    remote_addr *found;
    size_t count;
};

/* The linker merges a text with the end of a longer one: a NUL need not precede it. */
static bool visit_anchor(void *ctx, const struct piece *piece)
{
    struct anchor_search *search = ctx;
    const unsigned char *at = piece->bytes, *end = piece->bytes + piece->len;

    while ((at = memmem(at, (size_t)(end - at), anchor_text, sizeof anchor_text))) {
        if ((size_t)(at - piece->bytes) >= piece->fresh)
            break;
        search->found[search->count++] = piece->at + (remote_addr)(at - piece->bytes);
        if (search->count == ANCHORS_MAX)
            return false;
        at++;
    }
    return true;
}

/* --- pointers --- */

/* The wanted values: those of a list, or low, low + CTL_NODE_SIZE, ... high. */
struct word_search {
    const remote_addr *wanted;
    size_t wanted_count;
    remote_addr low, high;
    remote_addr *found;
    size_t count, capacity;
};

static bool visit_words(void *ctx, const struct piece *piece)
{
    struct word_search *search = ctx;

    for (size_t i = -piece->at & 7; i < piece->fresh && i + 8 <= piece->len; i += 8) {
        remote_addr word;
        bool wanted;
        memcpy(&word, piece->bytes + i, sizeof word);
        if (word < search->low || word > search->high)
            continue;
        wanted = !search->wanted_count && (search->high - word) % CTL_NODE_SIZE == 0;
        for (size_t k = 0; k < search->wanted_count && !wanted; k++)
            wanted = word == search->wanted[k];
        if (!wanted)
            continue;
        search->found[search->count++] = piece->at + i;
        if (search->count == search->capacity)
            return false;
    }
    return true;
}

/* Finds the 8-byte words with a wanted value. */
static void find_words(const struct view *view, struct word_search *search)
{
    /* The range that becomes read-only after relocation contains the constant tables. */
    for (size_t i = 0; i < view->image.phdr_count; i++) {
        const Elf64_Phdr *ph = &view->image.phdrs[i];
        remote_addr start = ph->p_vaddr + view->image.bias, end;
        struct segment segment;
        if (ph->p_type != PT_GNU_RELRO || !view_segment_at(view, start, &segment))
            continue;
        end = ph->p_memsz < segment.end - start ? start + ph->p_memsz : segment.end;
        view_scan(view, start, end, 8, visit_words, search);
        break;
    }
    if (!search->count) /* a program at a fixed address is not relocated */
        view_scan_segments(view, PF_W | PF_X, 0, 8, visit_words, search);
    if (!search->count)
        view_scan_segments(view, PF_W, PF_W, 8, visit_words, search);
}

/* --- nodes --- */

struct raw_node {
    uint64_t named, name, count, children, function;
};

_Static_assert(sizeof(struct raw_node) == CTL_NODE_SIZE, "ctl_named_node_t");

/* Checks that a raw node has the common form, and reads its name. */
static bool node_valid(const struct view *view, const struct raw_node *raw, struct ctl_node *node)
{
    if ((raw->named & 0xff) != 1 ||
        !view_read_string(view, raw->name, node->name, sizeof node->name) ||
        node->name[strspn(node->name, "abcdefghijklmnopqrstuvwxyz0123456789_")])
        return false;
    node->child_count = (uint32_t)raw->count;
    node->children = raw->children;
    node->function = raw->function;
    if (raw->children)
        return raw->function == 0 && node->child_count > 0 && node->child_count <= CHILDREN_MAX;
    return node->child_count == 0 && raw->function >= view->module->exec_start &&
           raw->function < view->module->exec_end;
}

/* Reads a named node (except its parent); false: what is at that address has not its form. */
static bool ctl_node_read(const struct view *view, remote_addr at, struct ctl_node *node)
{
    struct raw_node raw;

    return view_read(view, at, &raw, sizeof raw) && node_valid(view, &raw, node);
}

/* Returns the first node of the table that contains a node: its nodes are contiguous. */
static remote_addr table_start(const struct view *view, remote_addr at)
{
    struct ctl_node node;

    for (unsigned i = 0; i < CHILDREN_MAX && ctl_node_read(view, at - CTL_NODE_SIZE, &node); i++)
        at -= CTL_NODE_SIZE;
    return at;
}

/*
 * Finds the node with that name whose children start at an address from low to
 * high. Tables of several files may be adjacent, so the start of a table is only
 * known when a node is found that points to it.
 */
static remote_addr find_parent(const struct view *view, remote_addr low, remote_addr high,
                               const char *name)
{
    remote_addr found[PARENTS_MAX];
    struct word_search search = {.low = low, .high = high, .found = found, .capacity = PARENTS_MAX};

    find_words(view, &search);
    for (size_t i = 0; i < search.count; i++) {
        remote_addr at = found[i] - offsetof(struct raw_node, children);
        struct ctl_node node;
        if (ctl_node_read(view, at, &node) && node.children >= low && node.children <= high &&
            high - node.children < (remote_addr)node.child_count * CTL_NODE_SIZE &&
            strcmp(node.name, name) == 0)
            return at;
    }
    return 0;
}

/* --- all tables --- */

/* Reads the nodes of one table and appends them. */
static bool tables_add(const struct view *view, struct ctl_tables *tables, size_t owner,
                       remote_addr start, uint32_t count)
{
    struct raw_node raw[CHILDREN_MAX];
    size_t index = tables->table_count;

    /* An indexed table: a function returns its nodes. */
    if (!view_read(view, start, raw, sizeof *raw) || (raw->named & 0xff) != 1)
        return true;
    if (index == CTL_TABLES_MAX || count > CHILDREN_MAX ||
        count > CTL_NODES_MAX - tables->node_count ||
        !view_read(view, start, raw, count * sizeof *raw))
        return false;
    tables->tables[tables->table_count++] =
        (struct ctl_table){start, start + (remote_addr)count * CTL_NODE_SIZE, owner};
    for (uint32_t i = 0; i < count; i++) {
        struct ctl_node *node = &tables->nodes[tables->node_count++];
        if (!node_valid(view, &raw[i], node))
            return false;
        node->parent = index;
    }
    return true;
}

static struct ctl_tables *tables_read(const struct view *view, remote_addr super_root)
{
    static const char *const in_every_version[] = {
        "version",     "epoch",     "config.prof", "config.stats", "opt.abort",      "opt.prof",
        "prof.active", "prof.dump", "prof.reset",  "prof.gdump",   "arenas.narenas", "thread.arena",
    };
    struct ctl_tables *tables = calloc(1, sizeof *tables);
    struct ctl_node root;
    bool good;

    if (!tables)
        return NULL;
    tables->super_root = super_root;
    good = ctl_node_read(view, super_root, &root) &&
           tables_add(view, tables, SIZE_MAX, root.children, root.child_count);
    /* Breadth first, so that the nodes of a table stay together. A cycle ends at the limits. */
    for (size_t i = 0; i < tables->node_count && good; i++) {
        const struct ctl_node *node = &tables->nodes[i];
        if (node->children)
            good = tables_add(view, tables, i, node->children, node->child_count);
    }
    for (size_t i = 0; i < ARRAY_LEN(in_every_version) && good; i++)
        good = ctl_function(tables, in_every_version[i]) != 0;
    if (good)
        return tables;
    free(tables);
    return NULL;
}

struct ctl_tables *ctl_find_tables(const struct view *view, size_t nth)
{
    remote_addr anchors[ANCHORS_MAX], names[ANCHORS_MAX];
    struct anchor_search texts = {anchors, 0};
    struct word_search search = {
        .wanted = anchors,
        .high = UINT64_MAX,
        .found = names,
        .capacity = ARRAY_LEN(names),
    };

    view_scan_segments(view, PF_W | PF_X, 0, sizeof anchor_text, visit_anchor, &texts);
    if (!texts.count) /* constants and code are in one segment */
        view_scan_segments(view, PF_W | PF_X, PF_X, sizeof anchor_text, visit_anchor, &texts);
    if (!texts.count)
        return NULL;
    search.wanted_count = texts.count;
    find_words(view, &search);
    for (size_t i = 0; i < search.count; i++) {
        remote_addr at = names[i] - offsetof(struct raw_node, name), prof = 0, super_root = 0;
        struct ctl_tables *tables = NULL;
        struct ctl_node node;

        /* Climbs from a node named thread_active_init to the node above the root. */
        if (ctl_node_read(view, at, &node) && strcmp(node.name, anchor_text) == 0)
            prof = find_parent(view, table_start(view, at), at, "prof");
        if (prof)
            super_root = find_parent(view, table_start(view, prof), prof, "");
        if (super_root)
            tables = tables_read(view, super_root);
        if (tables && nth == 0)
            return tables;
        nth -= tables != NULL;
        free(tables);
    }
    return NULL;
}

remote_addr ctl_function(const struct ctl_tables *tables, const char *path)
{
    size_t owner = SIZE_MAX;

    for (;;) {
        const size_t n = strcspn(path, ".");
        size_t child = SIZE_MAX;
        for (size_t i = 0; i < tables->node_count && child == SIZE_MAX; i++) {
            const struct ctl_node *node = &tables->nodes[i];
            if (tables->tables[node->parent].owner == owner && strlen(node->name) == n &&
                memcmp(node->name, path, n) == 0)
                child = i;
        }
        if (child == SIZE_MAX)
            return 0;
        if (!path[n])
            return tables->nodes[child].function;
        owner = child;
        path += n + 1;
    }
}
