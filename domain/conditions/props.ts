// Reads the props of an event, which the log holds as one JSON text.

export type Props = Readonly<Record<string, unknown>>;

const noProps: Props = {};

/**
 * Parses the text. Edges write valid JSON; if the text is broken anyway, the event counts as having
 * no props.
 */
export const propsOf = (text: string): Props => {
  try {
    const props: unknown = JSON.parse(text);
    return typeof props === "object" && props !== null ? (props as Props) : noProps;
  } catch {
    return noProps;
  }
};

/**
 * False if the text certainly has no member of that name at any depth. An escape in the text means
 * that it may have. The check costs a tenth of parsing.
 */
export const mayName = (text: string, name: string): boolean => text.includes(`"${name}"`) || text.includes("\\");

const letterPairs = (from: number, to: number): readonly (readonly [string, string])[] =>
  Array.from({ length: to - from }, (_, n) => String.fromCodePoint(from + n)).flatMap((upper) => {
    const lower = upper.toLowerCase();
    return lower === upper || [...lower].length > 1 ? [] : [[upper, lower] as const];
  });

/**
 * Coupons and referral codes compare without case and outer space; how one was saved is shown.
 * These are the upper-case letters of the Latin, Greek and Cyrillic alphabets, and the lower-case
 * letter of each, as the database folds them too (sinks/analytics/condition-fields.ts).
 */
const pairs = [letterPairs(0x41, 0x5b), letterPairs(0xc0, 0x180), letterPairs(0x370, 0x482)].flat();
export const upperLetters: string = pairs.map(([upper]) => upper).join("");
export const lowerLetters: string = pairs.map(([, lower]) => lower).join("");
/** A character class of regular expressions, with the white space that `trim` removes. */
export const whiteSpace: string =
  "[\\x{9}-\\x{d} \\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}\\x{feff}]";

const ASCII = /^[ -~]*$/;
const lowerOf: ReadonlyMap<string, string> = new Map(pairs);

/** The form in which codes are compared. */
export const codeOf = (text: string): string => {
  const trimmed = text.trim();
  if (ASCII.test(trimmed)) return trimmed.toLowerCase();
  let code = "";
  for (const letter of trimmed) code += lowerOf.get(letter) ?? letter;
  return code;
};
/** A part of a code, as rules ask for it. Spaces alone stand inside of a code. */
export const codePartOf = (text: string): string => codeOf(text) || text;
