// Remembers the answers of a pure function for the texts seen most recently.

/**
 * A longer text is computed each time, so that `size` bounds the bytes as well. A text that is a
 * part of a long one must come as a copy: V8 keeps the whole alive with its part.
 */
const LONGEST_KEPT = 1_024;

/**
 * The same function, at most `size` answers of it kept. Two generations instead of a list in order
 * of use: a hit in the younger one is a single map read, and when it is full the older one is let
 * go as a whole. Only pure functions may be wrapped, for what is forgotten is computed again; null
 * is an answer, undefined is none.
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
