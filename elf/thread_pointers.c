#include "elf/thread_pointers.h"
#include "base/search.h"
#include "elf/sections.h"
#include "elf/thread_search.h"
#include "host/task.h"

#include <stdlib.h>
#include <string.h>

enum { SEARCH_BYTES = 64 << 20, LIST_READS_MAX = 8, LIST_SLACK = 64, RING_SLACK = 64 };

struct searched_thread *search_thread(const struct thread_search *search, pid_t id)
{
    struct searched_thread *list = search->list;
    size_t at = SEARCH_FIRST(i, search->count, list[i].id >= id);

    return at < search->count && list[at].id == id ? &list[at] : NULL;
}

struct searched_thread *search_offer(struct thread_search *search, remote_addr pointer)
{
    struct searched_thread *owner;
    remote_addr self = 0;
    int32_t id = 0;

    if (!pointer || pointer % 8 || search->id_offset == THREAD_ID_UNKNOWN)
        return NULL;
    if (!memory_read(search->memory, pointer, &self, sizeof self) || self != pointer ||
        !memory_read(search->memory, pointer + search->id_offset, &id, sizeof id) || id <= 0)
        return NULL;
    owner = search_thread(search, id);
    if (owner && !owner->pointer) {
        owner->pointer = pointer;
        search->found++;
    }
    return owner;
}

/* ---- glibc ---- */

/*
 * glibc's lists of threads: those with stacks of glibc (stack_used), and those with
 * stacks of the program, the first thread among them (stack_user); list_t of
 * include/list.h. nptl_db/structs.def describes where they are for debuggers: since
 * 2.34 in _rtld_global of the dynamic linker, before in libpthread's variables. A
 * static program has variables, too.
 */
enum nptl_symbol {
    NPTL_TID,         /* of struct pthread */
    NPTL_LIST,        /* the links in it */
    NPTL_USED_MEMBER, /* of struct rtld_global */
    NPTL_USER_MEMBER,
    NPTL_RTLD_GLOBAL,
    NPTL_STATIC_USED, /* since 2.34 */
    NPTL_STATIC_USER,
    NPTL_USED, /* before 2.34 */
    NPTL_USER,
    NPTL_SYMBOLS
};

static const char *const nptl_names[NPTL_SYMBOLS] = {
    [NPTL_TID] = "_thread_db_pthread_tid",
    [NPTL_LIST] = "_thread_db_pthread_list",
    [NPTL_USED_MEMBER] = "_thread_db_rtld_global__dl_stack_used",
    [NPTL_USER_MEMBER] = "_thread_db_rtld_global__dl_stack_user",
    [NPTL_RTLD_GLOBAL] = "_rtld_global",
    [NPTL_STATIC_USED] = "_dl_stack_used",
    [NPTL_STATIC_USER] = "_dl_stack_user",
    [NPTL_USED] = "stack_used",
    [NPTL_USER] = "__stack_user",
};

/* A member, as _thread_db_* describes it. */
struct nptl_member {
    uint32_t bits, count, offset;
};

struct nptl_list {
    remote_addr next, prev;
};

struct nptl {
    remote_addr at[NPTL_SYMBOLS]; /* 0: not found */
    const struct module *library; /* with NPTL_TID */
    size_t id, links;             /* offsets in struct pthread */
};

static void find_exported(struct nptl *nptl, const struct thread_search *search)
{
    for (size_t i = 0; i < search->modules->count; i++) {
        const struct module *module = &search->modules->list[i];
        struct symbol symbol;
        struct image image;
        if (!module->inode || module->exec_start == module->exec_end ||
            !image_open(&image, search->memory, module->start))
            continue;
        for (size_t k = 0; k < NPTL_STATIC_USED; k++)
            if (!nptl->at[k] && image_symbol(&image, nptl_names[k], &symbol)) {
                nptl->at[k] = symbol.address;
                nptl->library = k == NPTL_TID ? module : nptl->library;
            }
    }
}

static bool note_nptl_symbol(void *ctx, const char *name, const struct symbol *symbol)
{
    struct nptl *nptl = ctx;

    for (size_t k = 0; name && k < NPTL_SYMBOLS; k++)
        if (strcmp(name, nptl_names[k]) == 0)
            nptl->at[k] = symbol->address;
    return true;
}

/* Reads the private names of the library, or of a static program. */
static void find_private(struct nptl *nptl, const struct thread_search *search,
                         const struct module *module)
{
    struct name_pattern patterns[NPTL_SYMBOLS];
    const struct name_query query = {.patterns = patterns, .count = NPTL_SYMBOLS};
    struct image image;
    AUTO_CLOSE int fd = -1;

    for (size_t k = 0; k < NPTL_SYMBOLS; k++)
        patterns[k] = (struct name_pattern){NAME_WHOLE, nptl_names[k], strlen(nptl_names[k])};
    if (!image_open(&image, search->memory, module->start) ||
        (fd = module_open(module, search->target, search->memory)) < 0)
        return;
    symtab_visit_all(fd, image_file_bias(&image, fd), &query, note_nptl_symbol, nptl);
}

static const struct module *static_program(const struct thread_search *search)
{
    for (size_t i = 0; i < search->modules->count; i++) {
        const struct module *module = &search->modules->list[i];
        struct image image;
        if (module->inode && module->exec_start != module->exec_end &&
            image_open(&image, search->memory, module->start) && image_is_static_program(&image))
            return module;
    }
    return NULL;
}

static bool read_member(const struct nptl *nptl, struct memory *memory, enum nptl_symbol which,
                        uint32_t limit, size_t *offset)
{
    struct nptl_member member;

    if (!nptl->at[which] || !memory_read(memory, nptl->at[which], &member, sizeof member) ||
        member.offset >= limit || member.count > 1)
        return false;
    *offset = member.offset;
    return true;
}

/* True if the whole list was read, and nothing was added or removed behind the last node. */
static bool walk_list(struct thread_search *search, const struct nptl *nptl, remote_addr head)
{
    size_t left = search->count * 2 + LIST_SLACK;
    struct nptl_list at, next;

    if (!memory_read(search->memory, head, &at, sizeof at))
        return false;
    for (remote_addr node = head; left--; at = next) {
        if (at.next == head)
            return true;
        if (!memory_read(search->memory, at.next, &next, sizeof next) || next.prev != node)
            return false;
        node = at.next;
        search_offer(search, node - nptl->links);
    }
    return false;
}

static void search_glibc(struct thread_search *search)
{
    static const enum nptl_symbol named[][2] = {{NPTL_STATIC_USED, NPTL_STATIC_USER},
                                                {NPTL_USED, NPTL_USER}};
    struct memory *memory = search->memory;
    struct nptl nptl = {0};
    remote_addr heads[2] = {0}; /* of both lists; 0: not found */
    size_t used, user;

    find_exported(&nptl, search);
    if (!nptl.at[NPTL_TID])
        nptl.library = static_program(search);
    if (nptl.library && (!nptl.at[NPTL_TID] || !nptl.at[NPTL_USED_MEMBER]))
        find_private(&nptl, search, nptl.library);
    if (!read_member(&nptl, memory, NPTL_TID, THREAD_ID_MAX, &nptl.id) || !nptl.id ||
        !read_member(&nptl, memory, NPTL_LIST, 1 << 16, &nptl.links))
        return;
    search->id_offset = nptl.id;
    if (nptl.at[NPTL_RTLD_GLOBAL] && read_member(&nptl, memory, NPTL_USED_MEMBER, 1 << 20, &used) &&
        read_member(&nptl, memory, NPTL_USER_MEMBER, 1 << 20, &user)) {
        heads[0] = nptl.at[NPTL_RTLD_GLOBAL] + used;
        heads[1] = nptl.at[NPTL_RTLD_GLOBAL] + user;
    } else {
        for (size_t i = 0; i < ARRAY_LEN(named) && !heads[0]; i++)
            for (size_t k = 0; k < 2; k++)
                heads[k] = nptl.at[named[i][k]];
    }
    for (size_t k = 0; k < 2; k++)
        for (unsigned i = 0; heads[k] && i < LIST_READS_MAX; i++)
            if (walk_list(search, &nptl, heads[k]))
                break;
}

/* ---- musl ---- */

/*
 * struct pthread begins with a pointer to itself, that to the TLS blocks (dtv), and the
 * links of a ring, prev and next (pthread_impl.h, since 1.1.22).
 */
struct musl_thread {
    remote_addr self, dtv, prev, next;
};

void search_musl(struct thread_search *search)
{
    for (size_t i = 0; i < search->count && search->found < search->count; i++) {
        const remote_addr start = search->list[i].pointer;
        size_t left = search->count * 2 + RING_SLACK;
        struct musl_thread at, next;
        if (!start || !memory_read(search->memory, start, &at, sizeof at) || at.self != start)
            continue;
        for (remote_addr node = start; left-- && at.next != start; at = next) {
            if (!memory_read(search->memory, at.next, &next, sizeof next) || next.self != at.next ||
                next.prev != node)
                break;
            node = at.next;
            search_offer(search, node);
        }
    }
}

/* ---- all threads ---- */

static int compare_ids(const void *a, const void *b)
{
    pid_t x = ((const struct searched_thread *)a)->id, y = ((const struct searched_thread *)b)->id;

    return (x > y) - (x < y);
}

/* Lists the threads with their ids in their own pid namespaces. */
static bool list_searched(struct thread_search *search)
{
    const struct target *target = search->target;
    struct proc_status status;
    struct threads all;
    struct fault fault;

    if (target->record || threads_list(&all, target, &fault) != FAULT_NONE)
        return false;
    search->list = calloc(all.count + 1, sizeof *search->list);
    for (size_t i = 0; search->list && i < all.count; i++) {
        const pid_t tid = all.list[i].tid;
        pid_t id = tid;
        if (target->status.ns_pid_count > 1)
            id = thread_status(target->proc, target->pid, tid, &status) ? 0 : status.ns_pid;
        search->list[search->count++] = (struct searched_thread){.thread = all.list[i], .id = id};
    }
    threads_free(&all);
    if (search->count)
        qsort(search->list, search->count, sizeof *search->list, compare_ids);
    return search->count > 0;
}

static int compare_tids(const void *a, const void *b)
{
    pid_t x = ((const struct thread_pointer *)a)->tid, y = ((const struct thread_pointer *)b)->tid;

    return (x > y) - (x < y);
}

bool thread_pointers_read(struct thread_pointers *pointers, const struct modules *modules,
                          const struct target *target, struct memory *memory)
{
    struct thread_search search = {
        .modules = modules, .target = target, .memory = memory, .bytes_left = SEARCH_BYTES};

    memset(pointers, 0, sizeof *pointers);
    if (list_searched(&search)) {
        search_glibc(&search);
        if (search.found < search.count)
            search_stacks(&search);
        if (search.found < search.count)
            search_musl(&search);
        pointers->list = calloc(search.found + 1, sizeof *pointers->list);
    }
    for (size_t i = 0; pointers->list && i < search.count; i++)
        if (search.list[i].pointer)
            pointers->list[pointers->count++] =
                (struct thread_pointer){search.list[i].thread.tid, search.list[i].pointer};
    if (pointers->count)
        qsort(pointers->list, pointers->count, sizeof *pointers->list, compare_tids);
    free(search.list);
    return pointers->count > 0;
}

void thread_pointers_free(struct thread_pointers *pointers)
{
    free(pointers->list);
    memset(pointers, 0, sizeof *pointers);
}

remote_addr thread_pointer_of(const struct thread_pointers *pointers, pid_t tid)
{
    const struct thread_pointer *list = pointers->list;
    size_t at = SEARCH_FIRST(i, pointers->count, list[i].tid >= tid);

    return at < pointers->count && list[at].tid == tid ? list[at].pointer : 0;
}

enum {
    DYNAMIC_MAX = 256,
    RELOCATIONS_MAX = 1 << 20,
    PART = 512, /* relocations that are read at once */
    NUMBER_MAX = 1 << 16,
    DTV_AT = 8,      /* of the pointer to the dtv, from the thread pointer */
    SELF_AGAIN = 16, /* where glibc's thread points to itself a second time; in musl, prev */
    DTV_GLIBC = 16,  /* bytes of an entry of the dtv: the address, to_free */
    DTV_MUSL = 8,
    BLOCK_MAX = 1 << 24,
};

/* ---- a library ---- */

/* Finds the relocations that DT_RELA names; their size is in bytes. */
static bool find_rela(const struct image *image, remote_addr *at, uint64_t *size)
{
    *at = *size = 0;
    for (size_t i = 0; i < image->phdr_count; i++) {
        const Elf64_Phdr *ph = &image->phdrs[i];
        for (size_t k = 0; ph->p_type == PT_DYNAMIC && k < DYNAMIC_MAX; k++) {
            Elf64_Dyn dyn;
            if (!memory_read(image->memory, ph->p_vaddr + image->bias + k * sizeof dyn, &dyn,
                             sizeof dyn) ||
                dyn.d_tag == DT_NULL)
                break;
            if (dyn.d_tag == DT_RELA)
                *at = dyn.d_un.d_ptr >= image->base ? dyn.d_un.d_ptr : dyn.d_un.d_ptr + image->bias;
            if (dyn.d_tag == DT_RELASZ)
                *size = dyn.d_un.d_val;
        }
    }
    return *at && *size;
}

/* A relocation without a symbol is one of the module's own storage. */
static bool take_relocation(struct tls_block *block, const struct image *image,
                            const Elf64_Rela *rela, const struct tls_relocations *types)
{
    uint32_t type = (uint32_t)ELF64_R_TYPE(rela->r_info);
    uint64_t word;

    if (ELF64_R_SYM(rela->r_info) || (type != types->offset && type != types->module) ||
        !memory_read(image->memory, rela->r_offset + image->bias, &word, sizeof word))
        return false;
    if (type == types->offset) {
        block->distance = (int64_t)(word - (uint64_t)rela->r_addend);
        block->model = TLS_AT_DISTANCE;
        return block->distance < 0 && block->distance > -BLOCK_MAX;
    }
    block->number = word;
    block->model = TLS_BY_NUMBER;
    return word > 0 && word < NUMBER_MAX;
}

static bool read_relocations(struct tls_block *block, const struct image *image,
                             const struct tls_relocations *types)
{
    remote_addr at;
    uint64_t size;
    Elf64_Rela part[PART];

    if (!find_rela(image, &at, &size))
        return false;
    uint64_t count = size / sizeof *part;
    count = count < RELOCATIONS_MAX ? count : RELOCATIONS_MAX;
    for (uint64_t done = 0; done < count;) {
        size_t n = count - done < PART ? (size_t)(count - done) : PART;
        if (!memory_read(image->memory, at + done * sizeof *part, part, n * sizeof *part))
            return false;
        for (size_t i = 0; i < n; i++)
            if (take_relocation(block, image, &part[i], types))
                return true;
        done += n;
    }
    return false;
}

/* ---- the block ---- */

bool tls_find(struct tls_block *block, const struct module *module, struct memory *memory,
              const struct tls_relocations *types)
{
    const Elf64_Phdr *segment = NULL;
    struct image image;

    memset(block, 0, sizeof *block);
    if (!image_open(&image, memory, module->start))
        return false;
    for (size_t i = 0; i < image.phdr_count && !segment; i++)
        if (image.phdrs[i].p_type == PT_TLS && image.phdrs[i].p_memsz <= BLOCK_MAX)
            segment = &image.phdrs[i];
    if (!segment)
        return false;
    block->size = segment->p_memsz;
    if (image_has_interpreter(&image) || image.header.e_type == ET_EXEC || image.pie) {
        /* The program's ends below the thread pointer, at the first place with its alignment. */
        uint64_t align = segment->p_align ? segment->p_align : 1, size = segment->p_memsz;
        size += (0 - size - segment->p_vaddr) & (align - 1);
        block->model = TLS_AT_DISTANCE;
        block->distance = -(int64_t)size;
        return true;
    }
    if (read_relocations(block, &image, types))
        return true;
    block->model = TLS_UNKNOWN;
    return false;
}

remote_addr tls_of_thread(const struct tls_block *block, remote_addr pointer, struct memory *memory)
{
    remote_addr words[3], address;
    unsigned char byte;

    if (!pointer || block->model == TLS_UNKNOWN)
        return 0;
    if (block->model == TLS_AT_DISTANCE)
        return pointer + (remote_addr)block->distance;
    if (!memory_read(memory, pointer, words, sizeof words))
        return 0;
    size_t entry = words[SELF_AGAIN / 8] == pointer ? DTV_GLIBC : DTV_MUSL;
    /* The entry of an unused block is not an address: glibc sets it to -1. */
    if (!memory_read(memory, words[DTV_AT / 8] + block->number * entry, &address, sizeof address) ||
        !address || address % 8 || !memory_read(memory, address, &byte, 1))
        return 0;
    return address;
}
