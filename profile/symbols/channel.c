#include "profile/symbols/channel.h"

#include <stdlib.h>
#include <string.h>

bool channel_more(struct channel_buffer *buffer, const void *bytes, size_t len)
{
    size_t capacity = buffer->capacity ? buffer->capacity : 4096;

    while (capacity - buffer->len < len)
        capacity *= 2;
    if (capacity != buffer->capacity) {
        unsigned char *larger = realloc(buffer->bytes, capacity);
        if (!larger)
            return false;
        buffer->bytes = larger;
        buffer->capacity = capacity;
    }
    if (len)
        memcpy(buffer->bytes + buffer->len, bytes, len);
    buffer->len += len;
    return true;
}

bool channel_begin(struct channel_buffer *buffer, enum channel_kind kind, size_t len)
{
    const struct channel_head head = {kind, (uint32_t)len};

    return len <= CHANNEL_MAX && channel_more(buffer, &head, sizeof head);
}

bool channel_add(struct channel_buffer *buffer, enum channel_kind kind, const void *bytes,
                 size_t len)
{
    return channel_begin(buffer, kind, len) && channel_more(buffer, bytes, len);
}

void channel_free(struct channel_buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (struct channel_buffer){.bytes = NULL};
}
