// Remembers the answers of a pure function for the texts seen most recently.

/** A longer text is computed each time, so that `size` bounds the bytes as well. */
const LONGEST_KEPT = 1_024;
/** A part of a text keeps all of it alive (V8 slices share their parent), so keys are copies. */
const copyOf = (text: string): string => Buffer.from(text, "utf16le").toString("utf16le");

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
    younger.set(copyOf(text), answer);
    return answer;
  };
};
