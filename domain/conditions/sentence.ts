// Writes a condition as a sentence for people.
import type { Condition } from "../reference/reference.ts";
import { type Leaf, walk } from "./condition.ts";

interface Phrase {
  readonly text: string;
  /** The word between its parts. Null if there is only one part. */
  readonly joint: "and" | "or" | null;
}

/** A sentence lists at most this many values, each cut to a maximum length. */
const MOST_VALUES = 5;
const MOST_LETTERS = 60;

const quoted = (value: unknown): string => {
  if (typeof value !== "string") return String(value);
  const letters = [...value];
  return `"${letters.length > MOST_LETTERS ? `${letters.slice(0, MOST_LETTERS).join("")}…` : value}"`;
};

const listed = (values: readonly unknown[]): string => {
  const shown = values.slice(0, MOST_VALUES).map(quoted);
  const more = values.length - shown.length;
  return [...shown, ...(more > 0 ? [`${more} more`] : [])].join(", ");
};

/** The words for ordered comparisons. For dates they are "before" and "after". */
const ordered: Readonly<Record<string, readonly [number: string, date: string]>> = {
  gt: ["is more than", "is after"],
  gte: ["is at least", "is on or after"],
  lt: ["is less than", "is before"],
  lte: ["is at most", "is on or before"],
};
const plain: Readonly<Record<string, string>> = {
  eq: "is",
  ne: "is not",
  contains: "contains",
  starts_with: "begins with",
  ends_with: "ends with",
};

const comparisonOf = ({ field, op, value }: Leaf): string => {
  const name = field === "t" ? "type" : field;
  if (op === "exists") return value === true ? `${name} is there` : `${name} is missing`;
  if (op === "in") return `${name} is one of ${listed(value as readonly unknown[])}`;
  if (op === "not_in") return `${name} is none of ${listed(value as readonly unknown[])}`;
  if (op === "between") {
    const [low, high] = value as readonly [unknown, unknown];
    return `${name} is between ${quoted(low)} and ${quoted(high)}`;
  }
  const verb = plain[op] ?? ordered[op]?.[typeof value === "string" ? 1 : 0] ?? op;
  return `${name} ${verb} ${quoted(value)}`;
};

const joined =
  (joint: "and" | "or") =>
  (parts: readonly Phrase[]): Phrase => {
    if (parts.length === 1) return parts[0]!;
    const texts = parts.map((part) => (part.joint === null || part.joint === joint ? part.text : `(${part.text})`));
    return { text: texts.join(` ${joint} `), joint };
  };

/** Writes a checked condition in words, with long values shortened. */
export const phraseOf = (condition: Condition): string =>
  walk<Phrase>(condition, {
    leaf: (leaf) => ({ text: comparisonOf(leaf), joint: null }),
    all: joined("and"),
    any: joined("or"),
    not: ({ text }) => ({ text: `not (${text})`, joint: null }),
  }).text;
