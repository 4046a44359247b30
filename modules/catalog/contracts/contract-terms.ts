// The terms of a contract as people write them: the fields of each type, their limits, and the
// database columns.
import { z } from "zod";
import { toDecimal, toMinor } from "../../../domain/money.ts";
import type { Columns, ReferenceProblem } from "../reference/problem.ts";

/** Decimal(18,4), as in reports and exports, leaves 14 digits before the point. */
const WHOLE_DIGITS = 14;
const TIERS_MOST = 20;
const MONTHS_MOST = 120;

const decimal = z.union([z.number(), z.string()], 'give a number or a text like "12.50"').transform(String);
const rate = decimal
  .refine((text) => /^\d{1,9}(\.\d{1,4})?$/.test(text), "give percent with up to 4 decimals, e.g. 12.5")
  .refine(
    (text) => !/^\d/.test(text) || Number(text) <= 100,
    "a rate above 100 % would pay more than the sale: give at most 100",
  );
const amount = decimal
  .refine((text) => !text.startsWith("-"), "an amount cannot be negative: give zero or more")
  .refine((text) => text.startsWith("-") || /^\d+(\.\d+)?$/.test(text), 'give a plain decimal amount, e.g. "50.00"')
  .refine(
    (text) => !/^\d/.test(text) || (text.split(".")[0] ?? "").replace(/^0+/, "").length <= WHOLE_DIGITS,
    `an amount is too large: give at most ${WHOLE_DIGITS} digits before the point`,
  );
const tier = z.strictObject({ from: amount, rate: rate.nullish(), amount: amount.nullish() });

/** The fields that state what a contract pays. Amounts are decimals in the client's currency. */
export const termFields = {
  type: z.enum(["percent", "flat", "tiered", "recurring", "hybrid"], "give percent, flat, tiered, recurring or hybrid"),
  rate: rate.nullable().default(null),
  amount: amount.nullable().default(null),
  tiers: z.array(tier).max(TIERS_MOST, `give at most ${TIERS_MOST} tiers`).nullable().default(null),
  tier_mode: z.enum(["marginal", "retroactive"], "give marginal or retroactive").default("marginal"),
  months: z
    .int("give whole months, or null for as long as the customer buys")
    .min(1, "at least 1 month")
    .max(MONTHS_MOST, `at most ${MONTHS_MOST} months; null is for life`)
    .nullable()
    .default(null),
  /** Left out: as the version before, and `order` for a new contract. */
  per: z.enum(["order", "line"], "give order or line").optional(),
  min: amount.nullable().default(null),
  max: amount.nullable().default(null),
  cap: z
    .strictObject({ period: z.enum(["day", "month", "lifetime"], "give day, month or lifetime"), amount })
    .nullable()
    .default(null),
};
type GivenTier = z.output<typeof tier>;
type Terms = Readonly<z.output<z.ZodObject<typeof termFields>>>;
type Complain = (path: readonly PropertyKey[], message: string) => void;

/** Checks everything about the terms that does not depend on the currency. */
export const checkTerms = (terms: Terms, complain: Complain): void => {
  const { type, rate, amount, tiers, months, min, max, cap } = terms;
  const belongs = (field: keyof Terms, types: readonly Terms["type"][], isGiven: boolean): void => {
    if (isGiven && !types.includes(type))
      complain([field], `a ${type} contract has none: leave it out, or make it ${types.join(" or ")}`);
  };
  belongs("rate", ["percent", "hybrid", "recurring"], rate !== null);
  belongs("amount", ["flat", "hybrid", "recurring"], amount !== null);
  belongs("tiers", ["tiered"], tiers !== null && tiers.length > 0);
  belongs("months", ["recurring"], months !== null);
  belongs("min", ["percent", "hybrid", "recurring"], min !== null);
  belongs("max", ["percent", "hybrid", "recurring"], max !== null);
  if ((type === "percent" || type === "hybrid") && rate === null)
    complain(["rate"], `a ${type} contract needs one: give percent, e.g. 12.5`);
  if ((type === "flat" || type === "hybrid") && amount === null)
    complain(["amount"], `a ${type} contract needs one: give what a sale pays, e.g. "50.00"`);
  // A hybrid contract without a fixed part still pays its rate.
  if (type !== "hybrid" && amount !== null && Number(amount) === 0)
    complain(["amount"], 'a sale would be paid nothing: give more than zero, e.g. "50.00", or archive the contract');
  if (type === "recurring" && (rate === null) === (amount === null))
    complain(["rate"], "a recurring contract pays a rate or an amount: give one of the two");
  if (type === "tiered") checkTiers(terms, complain);
  if (min !== null && max !== null && Number(min) > Number(max))
    complain(["max"], "is below min: give at least as much");
  if (cap !== null && Number(cap.amount) === 0)
    complain(["cap", "amount"], "nothing could ever be paid: give more than zero, or archive the contract");
};

const checkTiers = ({ tiers, tier_mode, cap }: Terms, complain: Complain): void => {
  if (tiers === null || tiers.length === 0) {
    complain(["tiers"], "a tiered contract needs them: give at least one, the first from 0");
    return;
  }
  const isByRate = tiers[0]?.rate != null;
  const priceOf = (one: GivenTier | undefined): number | undefined => {
    const price = isByRate ? one?.rate : one?.amount;
    return price == null ? undefined : Number(price);
  };
  for (const [n, one] of tiers.entries()) {
    const before = tiers[n - 1];
    if ((one.rate == null) === (one.amount == null))
      complain(["tiers", n], "a tier pays a rate or an amount: give one of the two");
    else if ((one.rate != null) !== isByRate)
      complain(["tiers", n], "all tiers pay a rate, or all pay an amount: make them alike");
    if (!isByRate && !/^\d+$/.test(one.from))
      complain(["tiers", n, "from"], "tiers that pay amounts count sales: give a whole number");
    if (n === 0 && Number(one.from) !== 0) complain(["tiers", 0, "from"], "the first tier begins at 0");
    if (before !== undefined && Number(one.from) <= Number(before.from))
      complain(["tiers", n, "from"], `overlaps the tier before it, which begins at ${before.from}: begin above that`);
    if (n > 0 && priceOf(one) === 0)
      complain(["tiers", n], "sales up here would earn nothing: leave the tier out, and limit what is paid with a cap");
    if (tier_mode === "retroactive" && (priceOf(one) ?? 0) < (priceOf(before) ?? 0) && priceOf(one) !== undefined)
      complain(
        ["tiers", n],
        "a retroactive tier that pays less than the one before would take money back for selling more: " +
          "pay at least as much",
      );
  }
  if (cap?.period === "day")
    complain(["cap", "period"], "a tiered contract settles its month as a whole: cap the month or the lifetime");
};

/** Every amount of a contract with its place. */
const amountsOf = ({ amount, tiers, min, max, cap }: Terms): readonly (readonly [string, string])[] => {
  const given: [string, string | null | undefined][] = [
    ["amount", amount],
    ["min", min],
    ["max", max],
    ["cap.amount", cap?.amount],
    ...(tiers ?? []).flatMap(({ from, rate, amount }, n): [string, string | null | undefined][] =>
      rate == null ? [[`tiers[${n}].amount`, amount]] : [[`tiers[${n}].from`, from]],
    ),
  ];
  return given.flatMap(([place, text]) => (text == null ? [] : [[place, text] as const]));
};

/** Checks that amounts have no more decimals than the client's currency. */
export const amountProblems = (terms: Terms, currency: string, field: string): readonly ReferenceProblem[] =>
  amountsOf(terms).flatMap(([place, text]) => {
    const read = toMinor(text, currency);
    return read.kind === "amount"
      ? []
      : [
          {
            code: "invalid" as const,
            field: `${field}.${place}`,
            message: `${read.why} (${currency}): give less digits`,
          },
        ];
  });

const minorOf = (text: string, currency: string): string => {
  const read = toMinor(text, currency);
  if (read.kind === "bad_amount") throw new Error(`the amount ${text} ${read.why}, and was not refused`);
  return read.minor.toString();
};

/**
 * The terms as columns: minor units as digits, tiers as JSON of digits, and the currency if there
 * is an amount.
 */
export const termColumns = (terms: Terms, currency: string): Columns => {
  const { type, rate, amount, tiers, tier_mode, months, per = "order", min, max, cap } = terms;
  const minor = (text: string | null): string | null => (text === null ? null : minorOf(text, currency));
  return {
    type,
    rate,
    tier_mode: type === "tiered" ? tier_mode : null,
    months,
    per,
    currency: amountsOf(terms).length === 0 ? null : currency,
    amount_minor: minor(amount),
    min_minor: minor(min),
    max_minor: minor(max),
    cap_period: cap?.period ?? null,
    cap_minor: minor(cap?.amount ?? null),
    tiers:
      type !== "tiered" || tiers === null
        ? null
        : tiers.map(({ from, rate, amount }) =>
            amount == null
              ? { from: minorOf(from, currency), rate }
              : { from: BigInt(from).toString(), amount: minorOf(amount, currency) },
          ),
  };
};

/** The terms as people wrote them, from a row in the form that an insert takes. */
export const termsOf = ({
  type,
  rate,
  tier_mode,
  months,
  per,
  currency,
  amount_minor,
  min_minor,
  max_minor,
  cap_period,
  cap_minor,
  tiers,
}: Columns) => {
  const text = (minor: number | string | null): string | null =>
    minor == null || currency == null ? null : toDecimal(BigInt(minor), currency);
  return {
    type,
    rate,
    tier_mode: tier_mode ?? "marginal",
    months,
    per,
    amount: text(amount_minor),
    min: text(min_minor),
    max: text(max_minor),
    cap: cap_period == null ? null : { period: cap_period, amount: text(cap_minor) },
    tiers:
      tiers == null
        ? null
        : tiers.map((one: Columns) =>
            one.amount === undefined
              ? { from: text(one.from), rate: one.rate }
              : { from: one.from, amount: text(one.amount) },
          ),
  };
};
