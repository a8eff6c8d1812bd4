#include "stages/decode/jpeg/decode_jpeg_code.h"

#include <string.h>

enum { MOST_CODE = 16, MOST_DC = 11, MOST_AC = 10, LAST = 63 };
/* Bit fields in table entries. */
enum { LENGTH = 63, SIZE_AT = 6, SIZE = 15, RUN_AT = 10, END_RUN = 31, ENDED = 128 };

/* ---- tables ------------------------------------------------------------------------------------------------------ */

/* Index: the next MR_JPEG_SKIP_BITS bits. Value: the code's length, and the symbol from bit 8; 0: a longer code. */
typedef uint16_t short_codes[1 << MR_JPEG_SKIP_BITS];

static void list_codes(const mr_jpeg_code *code, short_codes list) {
    int first = 0, index = 0;
    memset(list, 0, sizeof(short_codes));
    for (int length = 1; length <= MR_JPEG_SKIP_BITS; length++, first *= 2)
        for (int i = 0; i < code->counts[length - 1]; i++, first++, index++)
            for (int rest = 0; rest < 1 << (MR_JPEG_SKIP_BITS - length); rest++)
                list[(first << (MR_JPEG_SKIP_BITS - length)) + rest] = (uint16_t)(length | code->symbols[index] << 8);
}

/* Returns an entry for near_symbols; 0: refused. */
static unsigned describe(int length, int symbol, bool is_ac) {
    int run = is_ac ? symbol >> 4 : 0, size = is_ac ? symbol & 15 : symbol;
    if (is_ac && symbol == 0)
        return (unsigned)length | END_RUN << RUN_AT;
    if (size > (is_ac ? MOST_AC : MOST_DC) || (is_ac && size == 0 && run != 15))
        return 0;
    return (unsigned)(length + size) | (unsigned)size << SIZE_AT | (unsigned)(run + is_ac) << RUN_AT;
}

/* Describes all symbols whose codes fit in these bits. The last symbol's value may follow them. */
static unsigned describe_several(const short_codes list, unsigned bits) {
    const unsigned all = (1 << MR_JPEG_SKIP_BITS) - 1;
    unsigned length = 0, run = 0;
    while (length < MR_JPEG_SKIP_BITS) {
        unsigned found = list[bits << length & all], code = found & 255;
        unsigned one = code ? describe((int)code, (int)(found >> 8), true) : 0, goes = one >> RUN_AT;
        bool ends = goes == END_RUN;
        if (!one || length + code > MR_JPEG_SKIP_BITS || run + (ends ? 1 : goes) > LAST)
            break;
        length += one & LENGTH;
        run += ends ? ENDED + 1 : goes;
        if (ends)
            break;
    }
    return length | run << SIZE_AT;
}

static void fill_tables(mr_jpeg_code *code, bool is_ac) {
    const int beyond = MR_JPEG_SKIP_BITS - MR_JPEG_NEAR_BITS;
    short_codes list;
    list_codes(code, list);
    for (unsigned bits = 0; bits < 1 << MR_JPEG_NEAR_BITS; bits++) {
        unsigned found = list[bits << beyond], length = found & 255;
        code->near_symbols[bits] =
            (uint16_t)(length && length <= MR_JPEG_NEAR_BITS ? describe((int)length, (int)(found >> 8), is_ac) : 0);
    }
    for (unsigned bits = 0; is_ac && bits < 1 << MR_JPEG_SKIP_BITS; bits++)
        code->skips[bits] = (uint16_t)describe_several(list, bits);
}

bool mr_jpeg_code_set(mr_jpeg_code *code, const uint8_t counts[MR_JPEG_LENGTHS], const uint8_t *symbols, bool is_ac) {
    uint32_t next = 0;
    int total = 0;
    for (int i = 0; i < MR_JPEG_LENGTHS; i++)
        total += counts[i];
    if (code->given && memcmp(code->counts, counts, sizeof code->counts) == 0 &&
        memcmp(code->symbols, symbols, (size_t)total) == 0)
        return true;
    code->given = false;
    if (total > (int)sizeof code->symbols)
        return false;
    memcpy(code->counts, counts, sizeof code->counts);
    memcpy(code->symbols, symbols, (size_t)total);
    for (int length = 1, index = 0; length <= MOST_CODE; length++) {
        code->offsets[length] = index - (int32_t)next;
        index += counts[length - 1];
        next += counts[length - 1];
        if (next > 1u << length)
            return false;
        code->ends[length] = next << (MOST_CODE - length);
        next *= 2;
    }
    fill_tables(code, is_ac);
    code->given = true;
    return true;
}

/* ---- bits -------------------------------------------------------------------------------------------------------- */

mr_jpeg_bits mr_jpeg_bits_of(const uint8_t *data, size_t bytes) {
    return (mr_jpeg_bits){.at = data, .end = data + bytes};
}

int64_t mr_jpeg_bits_left(const mr_jpeg_bits *bits) {
    return (int64_t)(bits->end - bits->at) * 8 + bits->count;
}

static inline uint64_t load_big_64(const uint8_t *at) {
    uint64_t bytes;
    memcpy(&bytes, at, sizeof bytes);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    bytes = __builtin_bswap64(bytes);
#endif
    return bytes;
}

/* Leaves 56 to 63 bits. A byte that was only partly counted is loaded twice, with the same bits. */
static inline void refill(mr_jpeg_bits *bits) {
    bits->next |= load_big_64(bits->at) >> bits->count;
    bits->at += (63 - bits->count) >> 3;
    bits->count |= 56;
}

static inline void drop(mr_jpeg_bits *bits, unsigned entry) {
    bits->next <<= entry & LENGTH;
    bits->count -= (int)(entry & LENGTH);
}

/* Returns the value that follows a code (T.81, F.2.2.1, EXTEND): the last `size` bits within the entry's length. */
static inline int value_of(const mr_jpeg_bits *bits, unsigned entry) {
    unsigned size = entry >> SIZE_AT & SIZE, all = (1u << size) - 1;
    unsigned value = (unsigned)(bits->next >> (-(entry & LENGTH) & 63)) & all;
    return value <= all >> 1 ? (int)value - (int)all : (int)value;
}

/* Finds a symbol with any code length; 0: none. Takes the bits by value, so that the caller's stay in registers. */
__attribute__((noinline)) static unsigned find_symbol(const mr_jpeg_code *code, uint64_t next, bool is_ac) {
    uint32_t bits = (uint32_t)(next >> (64 - MOST_CODE));
    for (int length = 1; length <= MOST_CODE; length++)
        if (bits < code->ends[length])
            return describe(length, code->symbols[(int32_t)(bits >> (MOST_CODE - length)) + code->offsets[length]],
                            is_ac);
    return 0;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static inline unsigned next_symbol(const mr_jpeg_code *code, const mr_jpeg_bits *bits, bool is_ac) {
    unsigned entry = code->near_symbols[bits->next >> (64 - MR_JPEG_NEAR_BITS)];
    return __builtin_expect(!entry, 0) ? find_symbol(code, bits->next, is_ac) : entry;
}

/* Returns the position after one more symbol; ENDED at the block's end; -1: refused. */
static inline int step(mr_jpeg_bits *bits, int position, unsigned entry) {
    unsigned run = entry >> RUN_AT;
    drop(bits, entry);
    if (run == END_RUN)
        return ENDED;
    return entry && position + (int)run <= LAST ? position + (int)run : -1;
}

/* Up to position 4 or beyond. */
static inline int read_near(mr_jpeg_bits *bits, const mr_jpeg_code *code, mr_jpeg_low *block) {
    enum { FOURTH = 4, OTHERS = 5 };
    int position = 0;
    block->at[1] = block->at[2] = block->at[4] = 0;
    do {
        refill(bits);
        unsigned entry = next_symbol(code, bits, true);
        int value = value_of(bits, entry);
        position = step(bits, position, entry);
        if (position < 0)
            return -1;
        block->at[position < OTHERS ? position : OTHERS] = (int16_t)value;
    } while (position < FOURTH);
    return position;
}

/* Some symbols on. */
static inline int skip_some(mr_jpeg_bits *bits, const mr_jpeg_code *code, int position) {
    unsigned entry = code->skips[bits->next >> (64 - MR_JPEG_SKIP_BITS)];
    int next = position + (int)(entry >> SIZE_AT);
    if (__builtin_expect(!entry || (next & (ENDED - 1)) > LAST, 0))
        return step(bits, position, next_symbol(code, bits, true));
    drop(bits, entry);
    return next;
}

/* Skips to the block's end. Two steps take 44 bits at most. */
static inline int skip_rest(mr_jpeg_bits *bits, const mr_jpeg_code *code, int position) {
    while ((unsigned)position < LAST) {
        refill(bits);
        position = skip_some(bits, code, position);
        if ((unsigned)position < LAST)
            position = skip_some(bits, code, position);
    }
    return position;
}

static inline bool read_block(mr_jpeg_bits *bits, const mr_jpeg_codes *codes, mr_jpeg_low *block, bool with_ac) {
    refill(bits);
    unsigned entry = next_symbol(codes->dc, bits, false);
    if (!entry)
        return false;
    block->at[0] = (int16_t)value_of(bits, entry);
    drop(bits, entry);
    int position = with_ac ? read_near(bits, codes->ac, block) : 0;
    if (position >= 0)
        position = skip_rest(bits, codes->ac, position);
    /* A block takes less than MR_JPEG_PADDING bytes. */
    return position >= 0 && bits->at <= bits->end + sizeof bits->next;
}

static inline bool read_all(mr_jpeg_bits *bits, const mr_jpeg_codes *codes, int period, int count, mr_jpeg_low *blocks,
                            bool with_ac) {
    mr_jpeg_bits now = *bits;
    bool good = true;
    for (int group = 0; group < count; group++)
        for (int i = 0; i < period && good; i++)
            good = read_block(&now, &codes[i], &blocks[codes[i].first + group * codes[i].step], with_ac);
    *bits = now;
    return good;
}

bool mr_jpeg_read_blocks(mr_jpeg_bits *bits, const mr_jpeg_codes *codes, int period, int count, mr_jpeg_low *blocks,
                         bool with_ac) {
    return with_ac ? read_all(bits, codes, period, count, blocks, true)
                   : read_all(bits, codes, period, count, blocks, false);
}
