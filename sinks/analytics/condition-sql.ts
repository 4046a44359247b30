// Translates a rule's condition into SQL of the store. It means the same as the closure of
// domain/conditions/evaluate.ts.

import { boundOf, dateForm, decimalOf, firstDayFrom, type ValueSpan } from "../../domain/conditions/comparison.ts";
import { type Leaf, walk } from "../../domain/conditions/condition.ts";
import { comparedValueOf, kindOf } from "../../domain/conditions/fields.ts";
import { codesByDigits } from "../../domain/money.ts";
import type { Condition as RuleCondition } from "../../domain/reference/reference.ts";
import { bind, type Condition } from "../../infra/clickhouse/query.ts";
import { literal, piece, plainPiece } from "../../infra/clickhouse/sql-fragments.ts";
import { type AnyValue, anyValueOf, type TextValue, textValueOf } from "./condition-fields.ts";

/**
 * A checked condition over the columns of `events` and `events_current`, for the `where` of a
 * query: `readRows(clickhouse, scope, { where: [matching(rule.when)] })`. Every leaf is 0 or 1 and
 * never NULL, so that `not` means the same as in the closure. Everything that a person wrote is a
 * bound parameter. Throws RangeError on an unchecked condition.
 */
export const matching = (condition: RuleCondition): Condition =>
  walk<Condition>(condition, {
    leaf: (leaf) => leafOf(leaf),
    all: (parts) => joined(parts, " and "),
    any: (parts) => joined(parts, " or "),
    not: (part) => piece`not ${part}`,
  });

const joined = (parts: readonly Condition[], by: string): Condition => ({
  expression: `(${parts.map(({ expression }) => expression).join(by)})`,
  values: parts.flatMap(({ values }) => values),
});

const leafOf = (asked: Leaf): Condition => {
  const kind = kindOf(asked.field);
  const leaf = { ...asked, value: comparedValueOf(asked) } as Leaf;
  if (kind === "money") return moneyLeaf(leaf);
  return kind === "any" ? anyLeaf(leaf, anyValueOf(leaf.field)) : textLeaf(leaf, textValueOf(leaf.field));
};

const texts = (value: unknown): readonly string[] =>
  (Array.isArray(value) ? value : [value]).filter((item) => typeof item === "string");
const isOne = ({ value }: Leaf): boolean => !Array.isArray(value) || value.length === 1;
const unless = (isSo: boolean, part: Condition): Condition => (isSo ? part : piece`(not ${part})`);

const isAmong = (given: Condition, leaf: Leaf): Condition =>
  isOne(leaf)
    ? piece`(${given} = ${bind("String", texts(leaf.value)[0]!)})`
    : piece`has(${bind("Array(String)", texts(leaf.value))}, ${given})`;

const textLeaf = (leaf: Leaf, { isThere, isText, text }: TextValue): Condition => {
  switch (leaf.op) {
    case "exists":
      return unless(leaf.value === true, isThere);
    case "eq":
    case "in":
      return piece`(${isText} and ${isAmong(text, leaf)})`;
    case "ne":
    case "not_in":
      return piece`(not (${isText} and ${isAmong(text, leaf)}))`;
    default:
      return piece`(${isText} and ${partOf(leaf, text)})`;
  }
};

/**
 * Compares bytes: no character of the text is a pattern, and in UTF-8 no letter begins inside
 * another.
 */
const partOf = ({ op, value }: Leaf, text: Condition): Condition => {
  const asked = bind("String", value as string);
  if (op === "contains") return piece`(position(${text}, ${asked}) > 0)`;
  if (op === "starts_with") return piece`startsWith(${text}, ${asked})`;
  if (op === "ends_with") return piece`endsWith(${text}, ${asked})`;
  throw new RangeError(`${op} does not apply to a text`);
};

const anyLeaf = (leaf: Leaf, value: AnyValue): Condition => {
  switch (leaf.op) {
    case "eq":
    case "in":
      return equalsAny(leaf, value);
    case "ne":
    case "not_in":
      return piece`(not ${equalsAny(leaf, value)})`;
    case "exists":
    case "contains":
    case "starts_with":
    case "ends_with":
      return textLeaf(leaf, value);
    default:
      return orderLeaf(leaf, value);
  }
};

/**
 * Values of different types are never equal, so each type in the list becomes a separate
 * comparison.
 */
const equalsAny = (leaf: Leaf, value: AnyValue): Condition => {
  const asked = Array.isArray(leaf.value) ? leaf.value : [leaf.value];
  const numbers = asked.filter((item) => typeof item === "number");
  const truths = asked.filter((item) => typeof item === "boolean");
  const parts: Condition[] = [];
  if (texts(asked).length > 0)
    parts.push(piece`(${value.isText} and has(${bind("Array(String)", texts(asked))}, ${value.text}))`);
  if (numbers.length > 0)
    parts.push(
      piece`(${value.isNumber} and has(arrayMap(bits -> reinterpretAsFloat64(bits),
        ${bind("Array(UInt64)", listOf(numbers.map(bitsOf)))}), ${value.number}))`,
    );
  if (truths.length > 0)
    parts.push(
      piece`(${value.isTruth} and has(${bind("Array(UInt8)", listOf(truths.map(Number)))}, toUInt8(${value.truth})))`,
    );
  return parts.length === 1 ? parts[0]! : joined(parts, " or ");
};

const view = new DataView(new ArrayBuffer(8));
/**
 * The 64 bits of a number, because its decimal text could be parsed as a neighbouring number. 0 and
 * -0 are one number.
 */
const bitsOf = (value: number): string => {
  view.setFloat64(0, value === 0 ? 0 : value);
  return view.getBigUint64(0).toString();
};
const float = (value: number): Condition => piece`reinterpretAsFloat64(${bind("UInt64", bitsOf(value))})`;

const orderLeaf = ({ op, value: asked }: Leaf, value: AnyValue): Condition => {
  const [low, high] = (op === "between" ? (asked as readonly unknown[]) : [asked, asked]).map((bound) =>
    boundOf(bound, "any"),
  );
  if (low === undefined || high === undefined)
    throw new RangeError(`${op} cannot compare with ${JSON.stringify(asked)}`);
  return low.unit === "number"
    ? piece`(${value.isNumber} and ${numberOrder(op, value.number, low.from, high.from)})`
    : piece`(${value.isText} and ${dateOrder(op, value.text, low, high)})`;
};

const numberOrder = (op: Leaf["op"], given: Condition, low: number, high: number): Condition => {
  if (op === "gt") return piece`${given} > ${float(low)}`;
  if (op === "gte") return piece`${given} >= ${float(low)}`;
  if (op === "lt") return piece`${given} < ${float(low)}`;
  if (op === "lte") return piece`${given} <= ${float(low)}`;
  return piece`(${given} >= ${float(low)} and ${given} <= ${float(high)})`;
};

/**
 * Every comparison of dates asks whether the beginning of the event's value is at or after some
 * moment (evaluate.ts, inOrder). An instant is compared with the moment itself, a day with the
 * first day that begins there, so that the store need not know when days begin in Mexico City.
 */
const dateOrder = (op: Leaf["op"], text: Condition, low: ValueSpan, high: ValueSpan): Condition => {
  const from = (at: number): Condition =>
    piece`if(isDay, day >= ${bind("Int64", String(firstDayFrom(at)))}, at >= ${bind("Int64", String(at))})`;
  const holds =
    op === "gt"
      ? from(low.to)
      : op === "gte"
        ? from(low.from)
        : op === "lt"
          ? piece`not ${from(low.from)}`
          : op === "lte"
            ? piece`not ${from(high.to)}`
            : piece`(${from(low.from)} and not ${from(high.to)})`;
  return piece`arrayExists(g -> length(g) > 0 and ${whenDate(holds)}, [extractGroups(${text}, ${literal(dateForm)})])`;
};

/**
 * `holds`, evaluated with `isDay`, `day` and `at` of the groups `g`. 0 for a date or time that does
 * not exist, as in comparison.ts.
 */
const whenDate = (
  holds: Condition,
): Condition => piece`arrayExists((y, m, d) -> ${plainPiece(isDate)} and arrayExists((day, isDay) ->
  arrayExists(at -> ${holds}, [${plainPiece(instant)}]), [${plainPiece(dayNumber)}], [g[8] = '']),
  [toInt64OrZero(g[1])], [toInt64OrZero(g[2])], [toInt64OrZero(g[3])])`;

const isDate =
  "y >= 100 and m between 1 and 12 and d between 1 and multiIf(m in (4, 6, 9, 11), 30, m != 2, 31, " +
  "y % 4 = 0 and (y % 100 != 0 or y % 400 = 0), 29, 28)" +
  " and not (y = 9999 and m = 12 and d = 31) and toUInt8OrZero(g[4]) <= 23 and toUInt8OrZero(g[5]) " +
  "<= 59 and toUInt8OrZero(g[6]) <= 59" +
  " and toUInt8OrZero(substring(g[8], 2, 2)) <= 23 and toUInt8OrZero(substring(g[8], 5, 2)) <= 59";
/** Days since 1970-01-01 in the Gregorian calendar, computed with years that begin in March. */
const dayNumber =
  "(y - (m < 3)) * 365 + intDiv(y - (m < 3), 4) - intDiv(y - (m < 3), 100) + intDiv(y - (m < 3), 400)" +
  " + intDiv(153 * (m + if(m > 2, -3, 9)) + 2, 5) + d - 719469";
const instant =
  "day * 86400000 + toInt64OrZero(g[4]) * 3600000 + toInt64OrZero(g[5]) * 60000 + toInt64OrZero(g[6]) * 1000" +
  " + toInt64OrZero(substring(concat(g[7], '000'), 1, 3))" +
  " - if(startsWith(g[8], '-'), -1, 1) * (toInt64OrZero(substring(g[8], 2, 2)) * 60 + " +
  "toInt64OrZero(substring(g[8], 5, 2))) * 60000";

const codesOf = (digits: number): string => (codesByDigits.get(digits) ?? []).map((code) => `'${code}'`).join(", ");
/**
 * The number of decimals of an amount: 2 without a currency, which means pesos, and -1 for an
 * unknown currency, which makes it no amount.
 */
const digits = plainPiece(
  "multiIf(currency is null, 2, " +
    `${[2, 0, 3, 4].map((count) => `currency in (${codesOf(count)}), ${count}`).join(", ")}, -1)`,
);
const hasAmount = piece`(isNotNull(value_minor) and ${digits} >= 0)`;
const mostDigits = 4;

/**
 * Compares minor units with integers. For each number of decimals these are the smallest amount
 * that is not below the given number, and the amount that equals it, if there is one. So nothing is
 * rounded.
 */
const moneyLeaf = ({ op, value }: Leaf): Condition => {
  if (op === "exists") return unless(value === true, piece`isNotNull(value_minor)`);
  const asked = (Array.isArray(value) ? value : [value]) as readonly number[];
  const equals = piece`(${hasAmount} and has(${bind("Array(Array(Int128))", scaled(asked, exact))}[${digits} + 1],
    toInt128(assumeNotNull(value_minor))))`;
  const reaches = (number: number, limit: (number: number, digits: number) => bigint): Condition =>
    piece`toInt128(assumeNotNull(value_minor)) >=
      ${bind("Array(Int128)", listOf(everyScale((count) => limit(number, count))))}[${digits} + 1]`;
  const [low, high = low] = asked as readonly [number, number?];
  switch (op) {
    case "eq":
    case "in":
      return equals;
    case "ne":
    case "not_in":
      return piece`(not ${equals})`;
    case "gt":
      return piece`(${hasAmount} and ${reaches(low, above)})`;
    case "gte":
      return piece`(${hasAmount} and ${reaches(low, atLeast)})`;
    case "lt":
      return piece`(${hasAmount} and not ${reaches(low, atLeast)})`;
    case "lte":
      return piece`(${hasAmount} and not ${reaches(low, above)})`;
    case "between":
      return piece`(${hasAmount} and ${reaches(low, atLeast)} and not ${reaches(high, above)})`;
    default:
      throw new RangeError(`${op} does not apply to value`);
  }
};

/** Larger than every 64-bit amount, and within the 128 bits of the comparison. */
const beyond = 10n ** 30n;
const clamped = (value: bigint): bigint => (value > beyond ? beyond : value < -beyond ? -beyond : value);

/** The number in minor units, as a fraction. */
const fractionOf = (number: number, digits: number): { readonly over: bigint; readonly under: bigint } => {
  const decimal = decimalOf(number);
  const shift = digits - decimal.digits;
  return shift >= 0
    ? { over: decimal.units * 10n ** BigInt(shift), under: 1n }
    : { over: decimal.units, under: 10n ** BigInt(-shift) };
};
const atLeast = (number: number, digits: number): bigint => {
  const { over, under } = fractionOf(number, digits);
  const quotient = over / under;
  return clamped(over > 0n && over % under !== 0n ? quotient + 1n : quotient);
};
const above = (number: number, digits: number): bigint => {
  const { over, under } = fractionOf(number, digits);
  return over % under === 0n ? clamped(over / under + 1n) : atLeast(number, digits);
};
const exact = (number: number, digits: number): bigint | undefined => {
  const { over, under } = fractionOf(number, digits);
  return over % under === 0n ? clamped(over / under) : undefined;
};
const scaled = (numbers: readonly number[], scale: (number: number, digits: number) => bigint | undefined): string =>
  listOf(
    everyScale((count) =>
      listOf(numbers.map((number) => scale(number, count)).filter((amount) => amount !== undefined)),
    ),
  );
const everyScale = <T>(of: (digits: number) => T): readonly T[] =>
  Array.from({ length: mostDigits + 1 }, (_, count) => of(count));

/**
 * A list of numbers in the syntax of the store. The client would quote the numbers that are texts
 * here.
 */
const listOf = (items: readonly (bigint | number | string)[]): string => `[${items.join(",")}]`;
