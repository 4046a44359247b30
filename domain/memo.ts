// Caches the results of a pure function for the most recent texts.

/**
 * Longer texts are computed each time, so that `size` also bounds the bytes. A text that was sliced
 * from a long one must be passed as a copy, because V8 keeps the whole text alive with its slice.
 */
const LONGEST_KEPT = 1_024;

/**
 * Wraps a function so that at most `size` results are cached. There are two generations instead of
 * a usage list: a hit in the younger one is a single map read, and when that is full, the older one
 * is dropped as a whole. Only pure functions may be wrapped, because forgotten results are computed
 * again. null is a valid result, undefined is not.
 */
export const memo = <Answer>(size: number, compute: (text: string) => Answer): ((text: string) => Answer) => {
  const generation = Math.max(1, Math.floor(size / 2));
  let younger = new Map<string, Answer>();
  let older = new Map<string, Answer>();
  return (text) => {
    if (text.length > LONGEST_KEPT) return compute(text);
    const known = younger.get(text);
    if (known !== undefined) return known;
    const seen = older.get(text);
    const answer = seen === undefined ? compute(text) : seen;
    if (younger.size >= generation) {
      older = younger;
      younger = new Map();
    }
    younger.set(text, answer);
    return answer;
  };
};
