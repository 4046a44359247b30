// Gives a condition its meaning as a closure: whether an event matches, and which comparison
// decided.
import { digitsOf } from "../currencies.ts";
import type { Condition } from "../reference/reference.ts";
import { type Leaf, walk } from "./condition.ts";
import { boundOf, type ValueSpan } from "./dates.ts";
import { comparedTo } from "./decimal.ts";
import { kindOf, readerOf, type Subject } from "./fields.ts";

/**
 * `path` is the JSON pointer of the leaf that decided: the first that failed of `all` (else its
 * last), the first that held of `any` (else its last).
 */
interface Verdict {
  readonly matches: boolean;
  readonly path: string;
}
export type Evaluate = (subject: Subject) => Verdict;

type Test = (subject: Subject) => boolean;
/**
 * n when the n-th leaf decided that it matches, -n when it decided that it does not; so `not` is a
 * change of sign, and nothing is allocated.
 */
type Decide = (subject: Subject) => number;

/**
 * Compiles a checked condition (docs/design/contracts.md, "Records"). Texts are compared letter by
 * letter, amounts are exact decimals in the event's currency, dates are those of Mexico City.
 * Throws on an unchecked one.
 */
export const compile = (condition: Condition): Evaluate => {
  const held: Verdict[] = [];
  const failed: Verdict[] = [];
  const decide = walk<Decide>(condition, {
    leaf: (leaf, path) => {
      const test = testOf(leaf);
      held.push({ matches: true, path });
      failed.push({ matches: false, path });
      const n = held.length;
      return (subject) => (test(subject) ? n : -n);
    },
    all: (parts) => firstOrLast(parts, (decided) => decided < 0),
    any: (parts) => firstOrLast(parts, (decided) => decided > 0),
    not: (part) => (subject) => -part(subject),
  });
  return (subject) => {
    const decided = decide(subject);
    return decided > 0 ? held[decided - 1]! : failed[-decided - 1]!;
  };
};

const firstOrLast =
  (parts: readonly Decide[], settles: (decided: number) => boolean): Decide =>
  (subject) => {
    let decided = 0;
    for (const part of parts) {
      decided = part(subject);
      if (settles(decided)) return decided;
    }
    return decided;
  };

const testOf = (leaf: Leaf): Test => (kindOf(leaf.field) === "money" ? moneyTest(leaf) : valueTest(leaf));

const valueTest = ({ field, op, value }: Leaf): Test => {
  const read = readerOf(field);
  switch (op) {
    case "exists":
      return (subject) => (read(subject) !== undefined) === value;
    case "eq":
      return (subject) => read(subject) === value;
    case "ne":
      return (subject) => read(subject) !== value;
    case "in":
    case "not_in": {
      const values = new Set(value as readonly unknown[]);
      const isIn = op === "in";
      return (subject) => values.has(read(subject)) === isIn;
    }
    case "contains":
      return textTest(read, (given) => given.includes(value as string));
    case "starts_with":
      return textTest(read, (given) => given.startsWith(value as string));
    case "ends_with":
      return textTest(read, (given) => given.endsWith(value as string));
    default:
      return orderTest(read, op, value);
  }
};

const textTest =
  (read: (subject: Subject) => unknown, holds: (given: string) => boolean): Test =>
  (subject) => {
    const given = read(subject);
    return typeof given === "string" && holds(given);
  };

type Order = "gt" | "gte" | "lt" | "lte" | "between";

/**
 * Numbers of the props are doubles on both sides: their shortest decimals stand in the same order.
 * Beyond 2^53 JSON numbers are not exact.
 */
const orderTest = (read: (subject: Subject) => unknown, op: Order, value: unknown): Test => {
  const [low, high] = (op === "between" ? (value as readonly unknown[]) : [value, value]).map((bound) =>
    boundOf(bound, "any"),
  );
  if (low === undefined || high === undefined)
    throw new RangeError(`${op} cannot compare with ${JSON.stringify(value)}`);
  const holds = inOrder[op];
  return (subject) => {
    const given = boundOf(read(subject), "any");
    return given !== undefined && given.unit === low.unit && holds(given.from, low, high);
  };
};
/**
 * A day that is given counts by its first moment; "after the 15th" is after its last one. For
 * numbers `to` is `from`, but not part of the stretch.
 */
const inOrder: Readonly<Record<Order, (given: number, low: ValueSpan, high: ValueSpan) => boolean>> = {
  gt: (given, low) => (low.unit === "time" ? given >= low.to : given > low.from),
  gte: (given, low) => given >= low.from,
  lt: (given, low) => given < low.from,
  lte: (given, _, high) => (high.unit === "time" ? given < high.to : given <= high.from),
  between: (given, low, high) => given >= low.from && (high.unit === "time" ? given < high.to : given <= high.from),
};

/**
 * An event without a currency is in pesos, as its edge would have said (docs/design/contracts.md,
 * "Answers").
 */
const defaultCurrency = "MXN";

const moneyTest = ({ op, value }: Leaf): Test => {
  if (op === "exists") return ({ event }) => (event.value_minor !== null) === value;
  const compares = (Array.isArray(value) ? value : [value]).map(comparedTo);
  const holds = moneyOrder[op];
  const whenMissing = op === "ne" || op === "not_in";
  if (holds === undefined) throw new RangeError(`${op} does not apply to value`);
  return ({ event: { value_minor, currency } }) => {
    const digits = value_minor === null ? undefined : digitsOf(currency ?? defaultCurrency);
    return digits === undefined ? whenMissing : holds((n) => compares[n]!(value_minor!, digits), compares.length);
  };
};

/**
 * `to(n)` says how the amount stands to the n-th of `count` numbers: negative below it, 0 equal,
 * positive above.
 */
type MoneyOrder = (to: (n: number) => number, count: number) => boolean;
const isAny: MoneyOrder = (to, count) => {
  for (let n = 0; n < count; n += 1) if (to(n) === 0) return true;
  return false;
};
const moneyOrder: Readonly<Partial<Record<Leaf["op"], MoneyOrder>>> = {
  eq: isAny,
  in: isAny,
  ne: (to, count) => !isAny(to, count),
  not_in: (to, count) => !isAny(to, count),
  gt: (to) => to(0) > 0,
  gte: (to) => to(0) >= 0,
  lt: (to) => to(0) < 0,
  lte: (to) => to(0) <= 0,
  between: (to) => to(0) >= 0 && to(1) <= 0,
};
