// Deflates small values that share a dictionary of words, after RFC 1951. zlib allocates for each
// value and reads the words again, which costs more than deflating does
// (docs/decisions/0048-values-are-deflated-by-our-own-code.md).

const SHORTEST = 4;
const LONGEST = 258;
/** The most positions that are tried for a match; further ones find little. */
const LOOKS = 12;
/** A match of this many bytes is taken without looking for a longer one. */
const LONG_ENOUGH = 32;
const HASH_BITS = 13;
const NONE = -1;
const FIRST_LENGTH = 257;
/** One block, marked as the last, with fixed codes. */
const HEAD = 0b011;
const HEAD_BITS = 3;
/** The number of zero bits that end a block. */
const END_BITS = 7;
/**
 * The most bytes of words and value together: a distance then has 17 bits, and fits behind 15 that
 * wait.
 */
const REACH = 16 * 1024;
/** In the worst case each byte needs nine bits, plus the frame. */
const worstBytes = (bytes: number): number => Math.ceil((bytes * 9) / 8) + 4;

/** The code of each symbol: its bits, lowest first, and their number. */
interface Codes {
  readonly bits: Uint16Array;
  readonly counts: Uint8Array;
}

const reversed = (code: number, count: number): number => {
  let bits = 0;
  for (let n = 0; n < count; n++) bits |= ((code >> n) & 1) << (count - 1 - n);
  return bits;
};

/** RFC 1951, 3.2.6: the fixed codes of literals and lengths. */
const symbols: Codes = (() => {
  const bits = new Uint16Array(288);
  const counts = new Uint8Array(288);
  const give = (from: number, to: number, count: number, first: number): void => {
    for (let symbol = from; symbol <= to; symbol++) {
      bits[symbol] = reversed(first + symbol - from, count);
      counts[symbol] = count;
    }
  };
  give(0, 143, 8, 0x30);
  give(144, 255, 9, 0x190);
  give(256, 279, 7, 0);
  give(280, 287, 8, 0xc0);
  return { bits, counts };
})();

/** RFC 1951, 3.2.5: lengths with the extra bits behind their symbol. */
const lengths: Codes = (() => {
  const bits = new Uint16Array(LONGEST + 1);
  const counts = new Uint8Array(LONGEST + 1);
  let length = 3;
  for (let symbol = FIRST_LENGTH; symbol < 285; symbol++) {
    const extra = symbol < 265 ? 0 : (symbol - 261) >> 2;
    const own = symbols.counts[symbol]!;
    for (let rest = 0; rest < 1 << extra; rest++, length++) {
      bits[length] = symbols.bits[symbol]! | (rest << own);
      counts[length] = own + extra;
    }
  }
  bits[LONGEST] = symbols.bits[285]!;
  counts[LONGEST] = symbols.counts[285]!;
  return { bits, counts };
})();

/**
 * The five bits of each of the 30 distance symbols; the symbol determines how many extra bits
 * follow.
 */
const FAR = Uint8Array.from({ length: 30 }, (_, symbol) => reversed(symbol, 5));

const hashAt = (bytes: Uint8Array, pos: number): number =>
  Math.imul(bytes[pos]! | (bytes[pos + 1]! << 8) | (bytes[pos + 2]! << 16) | (bytes[pos + 3]! << 24), 0x9e3779b1) >>>
  (32 - HASH_BITS);

/**
 * Deflates values of up to `largest` bytes with these words as the dictionary, which inflating
 * needs too.
 */
export const deflater = (words: Buffer, largest: number): ((value: Uint8Array) => Buffer) => {
  const size = words.length + largest;
  if (size > REACH) throw new Error(`${size} bytes are beyond the reach of a match`);
  const room = new Uint8Array(size);
  room.set(words);
  const out = Buffer.allocUnsafeSlow(worstBytes(largest));
  /**
   * The newest position of each hash, and for each position the previous one with the same hash.
   */
  const newest = new Int16Array(1 << HASH_BITS).fill(NONE);
  const before = new Int16Array(size);
  for (let pos = 0; pos + SHORTEST <= words.length; pos++) {
    const hash = hashAt(room, pos);
    before[pos] = newest[hash]!;
    newest[hash] = pos;
  }
  const ofWords = newest.slice();

  return (value) => {
    const { bits, counts } = symbols;
    newest.set(ofWords);
    room.set(value, words.length);
    const end = words.length + value.length;
    const lastEntry = end - SHORTEST;
    let held = HEAD;
    let holds = HEAD_BITS;
    let at = 0;
    /**
     * The length of the best match that begins one byte earlier. A longer match that begins here
     * replaces it.
     */
    let length = 0;
    let distance = 0;
    for (let pos = words.length; pos < end || length > 0; ) {
      let longer = 0;
      let longerDistance = 0;
      if (pos <= lastEntry && length < LONG_ENOUGH) {
        const hash = hashAt(room, pos);
        let place = newest[hash]!;
        before[pos] = place;
        newest[hash] = pos;
        const most = Math.min(LONGEST, end - pos);
        let best = Math.max(SHORTEST - 1, length);
        for (let look = 0; look < LOOKS && place !== NONE && best < most; look++, place = before[place]!) {
          if (room[place + best] !== room[pos + best]) continue;
          let same = 0;
          while (same < most && room[place + same] === room[pos + same]) same++;
          if (same <= best) continue;
          best = longer = same;
          longerDistance = pos - place;
        }
      }
      if (length === 0 || longer > 0) {
        if (length > 0 || longer === 0) {
          const symbol = room[length > 0 ? pos - 1 : pos]!;
          held |= bits[symbol]! << holds;
          holds += counts[symbol]!;
        }
        pos++;
        length = longer;
        distance = longerDistance;
      } else {
        // Positions inside of a match are not entered: values would be 2 % smaller, for a third
        // more work.
        pos += length - 1;
        held |= lengths.bits[length]! << holds;
        holds += lengths.counts[length]!;
        if (holds >= 16) {
          out[at++] = held;
          out[at++] = held >>> 8;
          held >>>= 16;
          holds -= 16;
        }
        const rest = distance - 1;
        const extra = rest < 4 ? 0 : 30 - Math.clz32(rest);
        held |= (FAR[2 * extra + (rest >> extra)]! | ((rest & ((1 << extra) - 1)) << 5)) << holds;
        holds += 5 + extra;
        length = 0;
      }
      if (holds >= 16) {
        out[at++] = held;
        out[at++] = held >>> 8;
        held >>>= 16;
        holds -= 16;
      }
    }
    // The last byte is filled with zeros too.
    for (holds += END_BITS; holds > 0; holds -= 8, held >>>= 8) out[at++] = held;
    return Buffer.from(out.subarray(0, at));
  };
};
