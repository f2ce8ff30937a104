#include "run/window.h"

#include <string.h>

void window_clear(struct window *window)
{
    memset(window, 0, sizeof *window);
}

static const struct window_slot *slot_back(const struct window *window, unsigned back)
{
    return &window->slots[(window->newest + WINDOW_SLOTS - back) % WINDOW_SLOTS];
}

/* A slot is length / (slots - 1) long, because the oldest is only partly in the window. */
void window_add(struct window *window, uint64_t length_ns, uint64_t now_ns, uint64_t value)
{
    struct window_slot *slot = &window->slots[window->newest];
    uint64_t each = length_ns / (WINDOW_SLOTS - 1);

    if (window->count > 0 && now_ns < slot->at)
        return;
    if (window->count > 0 && now_ns - slot->at < each) {
        if (value < slot->least)
            slot->least = value;
        return;
    }
    if (window->count > 0)
        window->newest = (window->newest + 1) % WINDOW_SLOTS;
    if (window->count < WINDOW_SLOTS)
        window->count++;
    window->slots[window->newest] = (struct window_slot){now_ns, value, value};
}

static bool within(const struct window_slot *slot, uint64_t length_ns, uint64_t now_ns)
{
    return now_ns >= slot->at && now_ns - slot->at <= length_ns;
}

bool window_least(const struct window *window, uint64_t length_ns, uint64_t now_ns, uint64_t *value)
{
    bool any = false;

    for (unsigned back = 0; back < window->count; back++) {
        const struct window_slot *slot = slot_back(window, back);
        if (!within(slot, length_ns, now_ns))
            break;
        if (!any || slot->least < *value)
            *value = slot->least;
        any = true;
    }
    return any;
}

bool window_oldest(const struct window *window, uint64_t length_ns, uint64_t now_ns,
                   uint64_t *value)
{
    bool any = false;

    for (unsigned back = 0; back < window->count; back++) {
        const struct window_slot *slot = slot_back(window, back);
        if (!within(slot, length_ns, now_ns))
            break;
        *value = slot->first;
        any = true;
    }
    return any;
}

bool window_before(const struct window *window, uint64_t length_ns, uint64_t now_ns,
                   uint64_t *value)
{
    for (unsigned back = 0; back < window->count; back++) {
        const struct window_slot *slot = slot_back(window, back);
        *value = slot->first;
        if (now_ns >= slot->at && now_ns - slot->at >= length_ns)
            break;
    }
    return window->count > 0;
}
