// Compiles a condition to a closure that tells whether an event matches, and which comparison
// decided.
import { digitsOf } from "../money.ts";
import type { Condition } from "../reference/reference.ts";
import { boundOf, comparedTo, type ValueSpan } from "./comparison.ts";
import { type Leaf, walk } from "./condition.ts";
import { comparedReaderOf, comparedValueOf, kindOf, type Subject } from "./fields.ts";

/**
 * `path` is the JSON pointer of the deciding leaf: in `all` the first that failed, in `any` the
 * first that held, otherwise the last one.
 */
interface Verdict {
  readonly matches: boolean;
  readonly path: string;
}
export type Evaluate = (subject: Subject) => Verdict;

type Test = (subject: Subject) => boolean;
/**
 * n if leaf number n decided that the event matches, -n if it decided that it does not. So `not`
 * only changes the sign, and nothing is allocated.
 */
type Decide = (subject: Subject) => number;

/**
 * Compiles a checked condition (docs/design/contracts.md, "Records"). Texts are compared exactly
 * (coupons without case and outer space), amounts as exact decimals in the event's currency, and
 * dates in the time of Mexico City. Throws on an unchecked condition.
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

const valueTest = (leaf: Leaf): Test => {
  const { field, op } = leaf;
  const read = comparedReaderOf(field);
  const value = comparedValueOf(leaf);
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
 * Numbers in props are doubles on both sides, so they order like their shortest decimals. Beyond
 * 2^53, JSON numbers are not exact.
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
 * A day in the event counts by its first moment; a day in the condition covers all its moments, so
 * "after the 15th" starts on the 16th. For numbers, `to` equals `from`.
 */
const inOrder: Readonly<Record<Order, (given: number, low: ValueSpan, high: ValueSpan) => boolean>> = {
  gt: (given, low) => (low.unit === "time" ? given >= low.to : given > low.from),
  gte: (given, low) => given >= low.from,
  lt: (given, low) => given < low.from,
  lte: (given, _, high) => (high.unit === "time" ? given < high.to : given <= high.from),
  between: (given, low, high) => given >= low.from && (high.unit === "time" ? given < high.to : given <= high.from),
};

/** The currency of an event without one (docs/design/contracts.md, "Answers"). */
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
 * `to(n)` compares the amount with number n of `count`: negative if below, 0 if equal, positive if
 * above.
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
