// The shared fields of figures: their stamp, money in one currency, and counts.
import { z } from "zod";
import { choice, decimal, time } from "../fields.ts";

/** How fresh the figures are. */
export const stamp = {
  as_of: time.describe("everything that came before is in the figures"),
  freshness: choice(["fresh", "stale"]).describe("stale: the newest event, or as_of, is older than 15 minutes"),
  timezone: z.string(),
  provisional_until: time.nullable().describe("until then the last month may change"),
};

export const money = decimal;
export const ratio = z.number().nullable().describe("four decimals; null when it is a share of nothing");
const perPiece = money.nullable();

const earned = { commission: money, currency: z.string() };
const sold = { gross: money, refunded: money, net: money };
const soldRatios = { aov: perPiece, refund_rate: ratio, roas: ratio };
const epc = { epc: perPiece.describe("commission a click, with two more digits than the currency has") };

/** Commission without revenue, for readers who may not see revenue. */
export const earnedBlock = { ...earned, other_currencies: z.array(z.object(earned)) };
export const earnedOfClicks = { ...earned, ...epc, other_currencies: z.array(z.object({ ...earned, ...epc })) };
/** Revenue and commission. */
const soldMoney = { ...sold, ...soldRatios, ...earned };
export const soldBlock = { orders: z.int(), ...soldMoney, other_currencies: z.array(z.object(soldMoney)) };
export const soldOfClicks = {
  orders: z.int(),
  ...soldMoney,
  ...epc,
  other_currencies: z.array(z.object({ ...soldMoney, ...epc })),
};

export const clicks = { clicks: z.int().describe("without repeats and filtered ones") };
export const conversions = { conversions: z.int() };
export const change = z.number().nullable().describe("against as many days before; null when nothing was then");
