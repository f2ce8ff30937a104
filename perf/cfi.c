#include "perf/cfi.h"
#include "perf/dwarf_bytes.h"

enum {
    STATES_MAX = 16, /* of DW_CFA_remember_state */
    /* Pointer encodings (LSB, "DWARF Exception Header Encoding"). */
    ENCODED_FORMAT = 0x0f,
    ENCODED_PCREL = 0x10,
    /* Instructions (DWARF 5, 7.24); the first three have an operand in the low 6 bits. */
    CFA_ADVANCE_LOC = 0x40,
    CFA_OFFSET = 0x80,
    CFA_RESTORE = 0xc0,
    CFA_NOP = 0,
    CFA_SET_LOC,
    CFA_ADVANCE_LOC1,
    CFA_ADVANCE_LOC2,
    CFA_ADVANCE_LOC4,
    CFA_OFFSET_EXTENDED,
    CFA_RESTORE_EXTENDED,
    CFA_UNDEFINED,
    CFA_SAME_VALUE,
    CFA_REGISTER,
    CFA_REMEMBER_STATE,
    CFA_RESTORE_STATE,
    CFA_DEF_CFA,
    CFA_DEF_CFA_REGISTER,
    CFA_DEF_CFA_OFFSET,
    CFA_DEF_CFA_EXPRESSION,
    CFA_EXPRESSION,
    CFA_OFFSET_EXTENDED_SF,
    CFA_DEF_CFA_SF,
    CFA_DEF_CFA_OFFSET_SF,
    CFA_VAL_OFFSET,
    CFA_VAL_OFFSET_SF,
    CFA_VAL_EXPRESSION,
    CFA_GNU_WINDOW_SAVE = 0x2d, /* aarch64: return addresses are signed from here on */
    CFA_GNU_ARGS_SIZE = 0x2e,
    CFA_GNU_NEGATIVE_OFFSET = 0x2f,
};

struct record {
    remote_addr at;            /* of the bytes */
    const unsigned char *base; /* the bytes at `at` */
    struct dwarf_bytes bytes;  /* behind the length */
};

struct cie {
    uint64_t code_align;
    int64_t data_align;
    uint64_t link;
    unsigned char encoding;
    bool sized, signal; /* has augmentation data; 'S' */
    struct dwarf_bytes program;
};

struct state {
    struct cfi_rule cfa;
    struct cfi_rule rules[MACHINE_REGS];
};

struct program {
    const struct record *record; /* where its bytes are */
    const struct cie *cie;
    struct dwarf_bytes bytes;
    remote_addr location, pc;
    struct state state, initial;
    struct state *kept;
    size_t kept_count;
};

/* Reads a record: 4 bytes of length, then that many. */
static bool record_read(struct memory *memory, remote_addr at, unsigned char *buf, size_t size,
                        struct record *record)
{
    uint32_t len;

    if (!memory_read_cached(memory, at, &len, sizeof len) || len < 4 || len > size ||
        !memory_read_cached(memory, at + sizeof len, buf, len))
        return false;
    *record = (struct record){at + sizeof len, buf, {buf, buf + len, false}};
    return true;
}

static remote_addr address_of_record(const struct record *record, const unsigned char *at)
{
    return record->at + (uint64_t)(at - record->base);
}

static uint64_t read_encoded(struct dwarf_bytes *bytes, unsigned char encoding, remote_addr where)
{
    uint64_t value = 0;

    switch (encoding & ENCODED_FORMAT) {
    case 0x01:
        value = dwarf_uleb(bytes);
        break;
    case 0x09:
        value = (uint64_t)dwarf_sleb(bytes);
        break;
    case 0x02:
    case 0x03:
        value = dwarf_fixed(bytes, encoding & 1 ? 4 : 2);
        break;
    case 0x0a:
    case 0x0b:
        value = (uint64_t)dwarf_fixed_signed(bytes, encoding & 1 ? 4 : 2);
        break;
    case 0x00:
    case 0x04:
    case 0x0c:
        value = dwarf_fixed(bytes, 8);
        break;
    default:
        bytes->bad = true;
    }
    if ((encoding & 0x70) == ENCODED_PCREL)
        value += where;
    else if (encoding & 0xf0)
        bytes->bad = true;
    return value;
}

/* The augmentation's letters, which describe its data one after the other. */
static void read_augmentation(const char *letters, struct dwarf_bytes *data, struct cie *cie)
{
    for (; *letters; letters++) {
        if (*letters == 'R') {
            cie->encoding = (unsigned char)dwarf_fixed(data, 1);
        } else if (*letters == 'P') {
            unsigned char encoding = (unsigned char)dwarf_fixed(data, 1);
            read_encoded(data, encoding & ENCODED_FORMAT, 0);
        } else if (*letters == 'L') {
            dwarf_fixed(data, 1);
        } else if (*letters == 'S') {
            cie->signal = true;
        } else if (*letters != 'B') {
            data->bad = true;
        }
    }
}

static bool read_cie(struct record *record, struct cie *cie)
{
    struct dwarf_bytes *bytes = &record->bytes, data;
    const char *augmentation;
    const unsigned char *end;
    uint64_t id = dwarf_fixed(bytes, 4), version = dwarf_fixed(bytes, 1);

    *cie = (struct cie){.encoding = 0};
    end = memchr(bytes->at, 0, dwarf_left(bytes));
    if (id != 0 || (version != 1 && version != 3) || !end)
        return false;
    augmentation = (const char *)bytes->at;
    bytes->at = end + 1;
    cie->code_align = dwarf_uleb(bytes);
    cie->data_align = dwarf_sleb(bytes);
    cie->link = version == 1 ? dwarf_fixed(bytes, 1) : dwarf_uleb(bytes);
    if (*augmentation == 'z') {
        cie->sized = true;
        data = dwarf_block(bytes, dwarf_uleb(bytes));
        read_augmentation(augmentation + 1, &data, cie);
        bytes->bad |= data.bad;
    } else if (*augmentation) {
        return false;
    }
    cie->program = *bytes;
    return !bytes->bad && cie->link < MACHINE_REGS;
}

/* The registers that are not followed get a place that nobody reads. */
static struct cfi_rule *rule_of(struct program *program, uint64_t reg, struct cfi_rule *unused)
{
    return reg < MACHINE_REGS ? &program->state.rules[reg] : unused;
}

static void set_rule(struct program *program, uint64_t reg, enum cfi_how how, int64_t value)
{
    struct cfi_rule unused;

    *rule_of(program, reg, &unused) = (struct cfi_rule){.how = (unsigned char)how, .value = value};
}

static void restore_rule(struct program *program, uint64_t reg)
{
    if (reg < MACHINE_REGS)
        program->state.rules[reg] = program->initial.rules[reg];
}

static int64_t factored(const struct program *program, int64_t value)
{
    return (int64_t)((uint64_t)value * (uint64_t)program->cie->data_align);
}

static void set_cfa(struct program *program, uint64_t reg, int64_t offset)
{
    program->state.cfa = (struct cfi_rule){
        .how = reg < MACHINE_REGS ? CFI_REGISTER : CFI_UNDEFINED,
        .from = (unsigned char)reg,
        .value = offset,
    };
}

static void set_expression(struct program *program, struct cfi_rule *rule, enum cfi_how how)
{
    struct dwarf_bytes block = dwarf_block(&program->bytes, dwarf_uleb(&program->bytes));

    if (dwarf_left(&block) > UINT16_MAX)
        program->bytes.bad = true;
    *rule = (struct cfi_rule){
        .how = (unsigned char)how,
        .len = (uint16_t)dwarf_left(&block),
        .value = (int64_t)address_of_record(program->record, block.at),
    };
}

/* False: it is no instruction that defines the CFA. */
static bool define_cfa(struct program *program, unsigned char op)
{
    struct dwarf_bytes *bytes = &program->bytes;
    struct cfi_rule *cfa = &program->state.cfa;
    uint64_t reg;

    switch (op) {
    case CFA_DEF_CFA:
        reg = dwarf_uleb(bytes);
        set_cfa(program, reg, (int64_t)dwarf_uleb(bytes));
        return true;
    case CFA_DEF_CFA_SF:
        reg = dwarf_uleb(bytes);
        set_cfa(program, reg, factored(program, dwarf_sleb(bytes)));
        return true;
    case CFA_DEF_CFA_REGISTER:
        set_cfa(program, dwarf_uleb(bytes), cfa->value);
        return true;
    case CFA_DEF_CFA_OFFSET:
        cfa->value = (int64_t)dwarf_uleb(bytes);
        return true;
    case CFA_DEF_CFA_OFFSET_SF:
        cfa->value = factored(program, dwarf_sleb(bytes));
        return true;
    case CFA_DEF_CFA_EXPRESSION:
        set_expression(program, cfa, CFI_IS_EXPRESSION);
        return true;
    default:
        return false;
    }
}

/* False: it is no instruction with the place of a register. */
static bool define_place(struct program *program, unsigned char op)
{
    struct dwarf_bytes *bytes = &program->bytes;
    struct cfi_rule unused;
    uint64_t reg;

    switch (op) {
    case CFA_OFFSET_EXTENDED:
    case CFA_VAL_OFFSET:
        reg = dwarf_uleb(bytes);
        set_rule(program, reg, op == CFA_VAL_OFFSET ? CFI_IS : CFI_AT,
                 factored(program, (int64_t)dwarf_uleb(bytes)));
        return true;
    case CFA_OFFSET_EXTENDED_SF:
    case CFA_VAL_OFFSET_SF:
        reg = dwarf_uleb(bytes);
        set_rule(program, reg, op == CFA_VAL_OFFSET_SF ? CFI_IS : CFI_AT,
                 factored(program, dwarf_sleb(bytes)));
        return true;
    case CFA_GNU_NEGATIVE_OFFSET:
        reg = dwarf_uleb(bytes);
        set_rule(program, reg, CFI_AT, factored(program, -(int64_t)dwarf_uleb(bytes)));
        return true;
    case CFA_EXPRESSION:
    case CFA_VAL_EXPRESSION:
        reg = dwarf_uleb(bytes);
        set_expression(program, rule_of(program, reg, &unused),
                       op == CFA_EXPRESSION ? CFI_AT_EXPRESSION : CFI_IS_EXPRESSION);
        return true;
    default:
        return false;
    }
}

static void define_other(struct program *program, unsigned char op)
{
    struct dwarf_bytes *bytes = &program->bytes;
    struct cfi_rule unused;
    uint64_t reg, from;

    switch (op) {
    case CFA_NOP:
    case CFA_GNU_WINDOW_SAVE:
        return;
    case CFA_GNU_ARGS_SIZE:
        dwarf_uleb(bytes);
        return;
    case CFA_RESTORE_EXTENDED:
        restore_rule(program, dwarf_uleb(bytes));
        return;
    case CFA_UNDEFINED:
    case CFA_SAME_VALUE:
        reg = dwarf_uleb(bytes);
        set_rule(program, reg, op == CFA_UNDEFINED ? CFI_UNDEFINED : CFI_SAME, 0);
        return;
    case CFA_REGISTER:
        reg = dwarf_uleb(bytes);
        from = dwarf_uleb(bytes);
        *rule_of(program, reg, &unused) = (struct cfi_rule){
            .how = from < MACHINE_REGS ? CFI_REGISTER : CFI_UNDEFINED, .from = (unsigned char)from};
        return;
    case CFA_REMEMBER_STATE:
        if (program->kept_count == STATES_MAX)
            bytes->bad = true;
        else
            program->kept[program->kept_count++] = program->state;
        return;
    case CFA_RESTORE_STATE:
        if (!program->kept_count)
            bytes->bad = true;
        else
            program->state = program->kept[--program->kept_count];
        return;
    default:
        bytes->bad = true;
    }
}

/* False: it is no instruction that goes on to the next location. */
static bool advance(struct program *program, unsigned char op)
{
    struct dwarf_bytes *bytes = &program->bytes;
    uint64_t by;

    if ((op & 0xc0) == CFA_ADVANCE_LOC)
        by = op & 0x3f;
    else if (op >= CFA_ADVANCE_LOC1 && op <= CFA_ADVANCE_LOC4)
        by = dwarf_fixed(bytes, (size_t)1 << (op - CFA_ADVANCE_LOC1));
    else if (op != CFA_SET_LOC)
        return false;
    else
        by = 0;
    program->location += by * program->cie->code_align;
    if (op == CFA_SET_LOC)
        program->location = read_encoded(bytes, program->cie->encoding,
                                         address_of_record(program->record, bytes->at));
    return true;
}

/* Carries out the instructions up to those that apply behind pc. Each takes at least a byte. */
static bool program_run(struct program *program)
{
    struct dwarf_bytes *bytes = &program->bytes;

    while (!bytes->bad && dwarf_left(bytes)) {
        unsigned char op = (unsigned char)dwarf_fixed(bytes, 1);
        if (advance(program, op)) {
            if (program->location > program->pc)
                break;
        } else if ((op & 0xc0) == CFA_OFFSET) {
            set_rule(program, op & 0x3f, CFI_AT, factored(program, (int64_t)dwarf_uleb(bytes)));
        } else if ((op & 0xc0) == CFA_RESTORE) {
            restore_rule(program, op & 0x3f);
        } else if (!define_cfa(program, op) && !define_place(program, op)) {
            define_other(program, op);
        }
    }
    return !bytes->bad;
}

static void row_fill(struct cfi_row *row, const struct state *state, const struct cie *cie)
{
    row->signal = cie->signal;
    row->link = (unsigned char)cie->link;
    row->count = 0;
    row->cfa = state->cfa;
    for (unsigned i = 0; i < MACHINE_REGS; i++) {
        if (state->rules[i].how == CFI_SAME)
            continue;
        row->rules[row->count] = state->rules[i];
        row->rules[row->count++].reg = (unsigned char)i;
    }
}

bool cfi_row_at(struct cfi_reader *reader, remote_addr at, remote_addr pc, struct cfi_row *row)
{
    struct record fde, cie_record;
    struct cie cie;
    struct state kept[STATES_MAX];
    uint64_t start, size, back;

    if (!record_read(reader->memory, at, reader->fde, sizeof reader->fde, &fde))
        return false;
    back = dwarf_fixed(&fde.bytes, 4);
    if (!back ||
        !record_read(reader->memory, fde.at - back, reader->cie, sizeof reader->cie, &cie_record) ||
        !read_cie(&cie_record, &cie))
        return false;
    start = read_encoded(&fde.bytes, cie.encoding, address_of_record(&fde, fde.bytes.at));
    size = read_encoded(&fde.bytes, cie.encoding & ENCODED_FORMAT, 0);
    if (fde.bytes.bad || pc - start >= size)
        return false;
    if (cie.sized)
        dwarf_block(&fde.bytes, dwarf_uleb(&fde.bytes));
    /* The instructions of the CIE, which begin each function, then those of the FDE. */
    struct program program = {.record = &cie_record,
                              .cie = &cie,
                              .bytes = cie.program,
                              .location = start,
                              .pc = pc,
                              .kept = kept};
    program.state.cfa.how = CFI_UNDEFINED;
    if (!program_run(&program))
        return false;
    program.initial = program.state;
    program.record = &fde;
    program.bytes = fde.bytes;
    if (!program_run(&program))
        return false;
    row_fill(row, &program.state, &cie);
    return true;
}
