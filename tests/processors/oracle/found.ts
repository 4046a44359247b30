// Histories for which the product and the oracle once differed, shrunk to their smallest form.
import type { History } from "./history.ts";

const bySale = { client: 1, partner: 21, segment: null, event_type: "purchase", to: null } as const;
const ofLife = { period: "lifetime", amount: 26_73n } as const;
const sold = { is: "event", client: 1, isPixel: false, verdict: "ok", did: "d1" } as const;

export const found: Readonly<Record<string, History>> = {
  "a line that a decision took before it came settles no month of tiers, which a refund freed room for": {
    clients: [{ id: 1, currency: "MXN", holdDays: {} }],
    patterns: [],
    closed: [],
    contracts: [
      {
        ...{ ...bySale, from: 1_767_247_200_000, recordedAt: 1_767_247_200_000 },
        ...{ type: "hybrid", amount: 28_44n, rate_ppm: 333_333n, cap: ofLife },
      },
      {
        ...{ ...bySale, from: 1_783_231_200_000, recordedAt: 1_782_889_200_000 },
        ...{ type: "tiered", isRetroactive: true, paysAmounts: false, tiers: [{ from: 0n, price: 126_485n }] },
        cap: ofLife,
      },
    ],
    happenings: [
      {
        ...{ is: "decision", id: "e0", client: 1, receivedAt: 1_782_799_200_000 },
        ...{ kind: "take_back", order: "B", product: "s1" },
      },
      {
        ...{ ...sold, id: "e3", t: "purchase", receivedAt: 1_783_216_800_002, ts: 1_783_216_800_002 },
        click: { partner: 21, at: 1_783_213_200_002 },
        ...{ order: "C", product: "s1", segment: "MX", amount: "285.91" },
      },
      {
        ...{ ...sold, id: "e6", t: "purchase", receivedAt: 1_783_648_801_002, ts: 1_783_648_801_002 },
        click: { partner: 21, at: 1_783_645_201_002 },
        ...{ order: "C", product: "s3", segment: "VD", amount: "100.00" },
      },
      {
        ...{ ...sold, id: "e7", t: "refund", receivedAt: 1_783_648_802_002, ts: 1_783_648_802_002 },
        ...{ order: "C", product: "s1" },
      },
      {
        ...{ ...sold, id: "e8", t: "ext_purchase", receivedAt: 1_783_821_602_002, ts: 1_783_821_602_002 },
        click: { partner: 21, at: 1_783_818_002_002 },
        ...{ order: "B", product: "s1", segment: "MX", amount: "100.00" },
      },
    ],
  },
  "nor does it begin the months of its customer": {
    clients: [{ id: 1, currency: "MXN", holdDays: {} }],
    patterns: [],
    closed: [],
    contracts: [
      {
        ...{ ...bySale, from: 1_767_247_200_000, recordedAt: 1_767_247_200_000 },
        ...{ type: "recurring", rate_ppm: 100_000n, months: 1 },
      },
    ],
    happenings: [
      {
        ...{ is: "decision", id: "e0", client: 1, receivedAt: 1_782_799_200_000 },
        ...{ kind: "take_back", order: "B", product: "s1" },
      },
      {
        ...{ ...sold, id: "e1", t: "purchase", receivedAt: 1_782_802_800_000, ts: 1_782_802_800_000 },
        click: { partner: 21, at: 1_782_799_200_000 },
        ...{ order: "B", product: "s1", segment: "MX", amount: "100.00" },
      },
      {
        ...{ ...sold, id: "e2", t: "purchase", receivedAt: 1_786_258_800_000, ts: 1_786_258_800_000 },
        click: { partner: 21, at: 1_786_255_200_000 },
        ...{ order: "C", product: "s1", segment: "MX", amount: "100.00" },
      },
    ],
  },
};
