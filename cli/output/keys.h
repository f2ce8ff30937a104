/* Keys of a terminal, from the bytes that it sends: ECMA-48 and the sequences of xterm. */
#pragma once

enum key {
    KEY_NONE = 0,     /* a sequence is not complete, or is of no key below */
    KEY_ENTER = '\n', /* a terminal makes it of Return */
    KEY_ESCAPE = 033,
    KEY_UP = 256, /* up to 255: the byte itself */
    KEY_DOWN,
    KEY_PAGE_UP,
    KEY_PAGE_DOWN,
    KEY_HOME,
    KEY_END,
};

/* A sequence that has begun; all 0 at the start. */
struct keys {
    enum keys_state { KEYS_PLAIN, KEYS_ESCAPE, KEYS_SEQUENCE } state;
    unsigned number; /* its parameter */
};

/* Takes the next byte; returns the key that it completes, one of enum key. */
int keys_take(struct keys *keys, unsigned char byte);
