#include "elf/view.h"

#include <string.h>

enum { PIECE = 1 << 20, WINDOW = 16 << 10 };

/* The part of the file that was read last: names and tables are short, and lie close together. */
struct view_window {
    uint64_t at;
    size_t len;
    unsigned char bytes[WINDOW];
};

bool view_open(struct view *view, const struct module *module, const struct target *target,
               struct memory *memory)
{
    view->module = module;
    view->fd = -1;
    if (!image_open(&view->image, memory, module->start))
        return false;
    view->window = calloc(1, sizeof *view->window);
    if (view->window)
        view->fd = module_open(module, target, memory);
    if (view->fd < 0)
        view->fd = -1;
    return true;
}

void view_close(struct view *view)
{
    util_close(&view->fd);
    free(view->window);
}

/* Reads program header i. False: it is not a PT_LOAD of the module. */
static bool view_segment(const struct view *view, size_t i, struct segment *out)
{
    const Elf64_Phdr *ph = &view->image.phdrs[i];
    const struct module *module = view->module;

    if (ph->p_type != PT_LOAD || ph->p_filesz > ph->p_memsz)
        return false;
    out->start = ph->p_vaddr + view->image.bias;
    out->flags = ph->p_flags;
    if (out->start < module->start || out->start >= module->end)
        return false;
    out->end = ph->p_filesz < module->end - out->start ? out->start + ph->p_filesz : module->end;
    return out->start < out->end;
}

bool view_segment_at(const struct view *view, remote_addr addr, struct segment *out)
{
    for (size_t i = 0; i < view->image.phdr_count; i++)
        if (view_segment(view, i, out) && addr >= out->start && addr < out->end)
            return true;
    return false;
}

bool view_read(const struct view *view, remote_addr addr, void *buf, size_t len)
{
    struct view_window *window = view->window;
    bool in_file = false; /* and the mapped bytes cannot differ from it */
    uint64_t offset = 0;

    for (size_t i = 0; i < view->image.phdr_count && view->fd >= 0; i++) {
        struct segment segment;
        if (!view_segment(view, i, &segment) || addr < segment.start || addr >= segment.end)
            continue;
        in_file = !(segment.flags & PF_W) && len <= segment.end - addr;
        offset = view->image.phdrs[i].p_offset + (addr - segment.start);
        break;
    }
    if (!in_file)
        return memory_read(view->image.memory, addr, buf, len);
    if (len > WINDOW / 2 || offset > INT64_MAX)
        return file_read(view->fd, offset, buf, len);
    if (offset < window->at || offset + len > window->at + window->len) {
        window->at = offset - offset % (WINDOW / 2);
        ssize_t n = pread(view->fd, window->bytes, WINDOW, (off_t)window->at);
        window->len = n < 0 ? 0 : (size_t)n;
    }
    if (offset + len > window->at + window->len)
        return false;
    memcpy(buf, window->bytes + (offset - window->at), len);
    return true;
}

bool view_read_string(const struct view *view, remote_addr addr, char *buf, size_t size)
{
    struct segment segment;

    if (!view_segment_at(view, addr, &segment))
        return false;
    size_t len = segment.end - addr < size ? (size_t)(segment.end - addr) : size;
    return view_read(view, addr, buf, len) && memchr(buf, 0, len);
}

bool view_scan(const struct view *view, remote_addr start, remote_addr end, size_t overlap,
               piece_visitor visit, void *ctx)
{
    size_t capacity = end - start < PIECE ? (size_t)(end - start) : PIECE;
    AUTO_FREE unsigned char *bytes = malloc(capacity ? capacity : 1);

    if (!bytes || overlap >= PIECE / 2)
        return false;
    for (remote_addr at = start; at < end;) {
        size_t len = end - at < PIECE ? (size_t)(end - at) : PIECE;
        size_t fresh = end - at <= PIECE ? len : PIECE - overlap;
        const struct piece piece = {at, bytes, len, fresh};
        if (!view_read(view, at, bytes, len) || !visit(ctx, &piece))
            return false;
        at += fresh;
    }
    return true;
}

bool view_scan_segments(const struct view *view, uint32_t mask, uint32_t wanted, size_t overlap,
                        piece_visitor visit, void *ctx)
{
    for (size_t i = 0; i < view->image.phdr_count; i++) {
        struct segment segment;
        if (!view_segment(view, i, &segment) || (segment.flags & mask) != wanted)
            continue;
        if (!view_scan(view, segment.start, segment.end, overlap, visit, ctx))
            return false;
    }
    return true;
}
