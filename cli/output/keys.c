#include "cli/output/keys.h"

enum { ESCAPE = 033, NUMBER_MAX = 1000 };

/* ESC [ 5 ~ */
static enum key numbered_key(unsigned number)
{
    switch (number) {
    case 1:
    case 7:
        return KEY_HOME;
    case 4:
    case 8:
        return KEY_END;
    case 5:
        return KEY_PAGE_UP;
    case 6:
        return KEY_PAGE_DOWN;
    default:
        return (int)KEY_NONE;
    }
}

/* ESC [ A, or ESC O A in application mode */
static enum key final_key(const struct keys *keys, unsigned char byte)
{
    switch (byte) {
    case 'A':
        return KEY_UP;
    case 'B':
        return KEY_DOWN;
    case 'H':
        return KEY_HOME;
    case 'F':
        return KEY_END;
    case '~':
        return numbered_key(keys->number);
    default:
        return (int)KEY_NONE;
    }
}

/* Parameters (0 to ;) and intermediate bytes come before the final byte, @ to ~. */
static int take_in_sequence(struct keys *keys, unsigned char byte)
{
    if (byte >= '0' && byte <= '9' && keys->number < NUMBER_MAX)
        keys->number = 10 * keys->number + (unsigned)(byte - '0');
    else if (byte == ';')
        keys->number = NUMBER_MAX; /* with a modifier: no key of ours, unless it has a letter */
    if (byte >= ' ' && byte < '@')
        return (int)KEY_NONE;
    keys->state = KEYS_PLAIN;
    return (int)final_key(keys, byte);
}

int keys_take(struct keys *keys, unsigned char byte)
{
    if (byte == ESCAPE) {
        keys->state = KEYS_ESCAPE;
        return (int)KEY_NONE;
    }
    switch (keys->state) {
    case KEYS_ESCAPE:
        keys->state = byte == '[' || byte == 'O' ? KEYS_SEQUENCE : KEYS_PLAIN;
        keys->number = 0;
        return keys->state == KEYS_SEQUENCE ? KEY_NONE : byte;
    case KEYS_SEQUENCE:
        return take_in_sequence(keys, byte);
    default:
        return byte;
    }
}
