// SHA-256 in plain JavaScript. crypto.subtle is missing on plain http and answers asynchronously,
// and an event that waits for it is lost when the page closes.

const rotate = (x: number, n: number): number => (x >>> n) | (x << (32 - n));
/**
 * The first 32 bits of the fraction; FIPS 180-4 derives its constants this way from roots of
 * primes.
 */
const fraction = (x: number): number => (x * 0x1_0000_0000) | 0;

const start: number[] = [];
const round: number[] = [];
const makeConstants = (): void => {
  for (let n = 2; round.length < 64; n += 1) {
    let divisor = 2;
    while (n % divisor) divisor += 1;
    if (divisor < n) continue;
    if (start.length < 8) start.push(fraction(n ** 0.5 % 1));
    round.push(fraction(Math.cbrt(n) % 1));
  }
};

/** 64 hex digits in lower case, of the text in UTF-8. Throws URIError for a lone surrogate. */
export const sha256 = (text: string): string => {
  if (round.length === 0) makeConstants();
  const bytes = unescape(encodeURIComponent(text));
  const size = ((bytes.length + 8) >> 6) * 16 + 16;
  const words = new Int32Array(size);
  for (let n = 0; n <= bytes.length; n += 1)
    words[n >> 2]! |= (n < bytes.length ? bytes.charCodeAt(n) : 0x80) << (24 - (n % 4) * 8);
  words[size - 1] = bytes.length * 8;

  const hash = start.slice();
  const w = new Int32Array(64);
  for (let block = 0; block < size; block += 16) {
    let state = hash.slice();
    for (let n = 0; n < 64; n += 1) {
      const [a, b, c, d, e, f, g, h] = state as [number, number, number, number, number, number, number, number];
      const x = w[n - 15]!;
      const y = w[n - 2]!;
      w[n] =
        n < 16
          ? words[block + n]!
          : w[n - 16]! +
            w[n - 7]! +
            (rotate(x, 7) ^ rotate(x, 18) ^ (x >>> 3)) +
            (rotate(y, 17) ^ rotate(y, 19) ^ (y >>> 10));
      const sum = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + round[n]! + w[n]!;
      const next = sum + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      state = [next | 0, a, b, c, (d + sum) | 0, e, f, g];
    }
    for (let n = 0; n < 8; n += 1) hash[n] = (hash[n]! + state[n]!) | 0;
  }
  return hash.map((word) => `0000000${(word >>> 0).toString(16)}`.slice(-8)).join("");
};
