// Claims, entries and the two money stages, run as a worker runs them: with memory as bytes and
// with recorded outcomes.
import { commission } from "../../processors/commission/commission.ts";
import type { Contracts } from "../../processors/commission/contracts.ts";
import { earned } from "../../processors/commission/memory.ts";
import { decisionOnLine, decisionOnOrder } from "../../processors/settle/decision-claim.ts";
import { order } from "../../processors/settle/memory.ts";
import type { OrderState } from "../../processors/settle/order.ts";
import { settle } from "../../processors/settle/settle.ts";
import type {
  Claim,
  Conversion,
  Credit,
  Decision,
  EventAttributed,
  EventReceived,
  Fraud,
  LedgerEntry,
} from "../../schemas/generated.ts";
import type { Emitted, MemoryOf, Outcome, Recorded, UnixMs } from "../../stream/flow.ts";
import { topics } from "../../topics.ts";
import {
  attributed,
  campaignId,
  clickCredit,
  clientId,
  contract,
  conversion,
  noon,
  partnerId,
  recorded,
} from "./builders.ts";
import { bytesOf, metBy } from "./remembered.ts";

interface Said extends Partial<EventReceived> {
  /** The partner whose click is credited; null if none is. */
  readonly partner?: number | null;
  readonly band?: Fraud["band"];
  readonly at?: UnixMs;
  readonly receivedAt?: UnixMs;
  readonly order_key?: string;
  readonly line_event_id?: string;
}

let made = 0;
/** A new event id, for tests that do not care which. */
const someId = (): string => `00000000-0000-8000-8000-${(++made).toString(16).padStart(12, "0")}`;

const claimOf = (kind: Claim["kind"], said: Said): Recorded<Claim> => {
  const { partner, band, at = noon, receivedAt = at, order_key, line_event_id, ...event } = said;
  const credit: Partial<Credit> =
    partner === null || partner === undefined
      ? {}
      : clickCredit({ partner_id: partner, candidates: [candidate(partner)] });
  // If a test sets a currency, the sender has named it.
  const props = typeof event.currency === "string" ? JSON.stringify({ currency: event.currency }) : "{}";
  const row = attributed({ event_id: someId(), props, ...event }, { credit, fraud: { band: band ?? "ok" } });
  const data: Claim = {
    client_id: clientId,
    order_key: order_key ?? `o:${row.event.order_id}`,
    kind,
    attributed: row,
    decision: null,
    line_event_id: line_event_id ?? null,
    currency: null,
    dated_by: null,
    dated_because: null,
    moved: null,
  };
  return recorded(topics.claims, data, { at, receivedAt });
};
const candidate = (partner: number) => ({
  method: "click",
  reference: "click",
  partner_id: partner,
  campaign_id: campaignId,
  outcome: "won",
});

/**
 * A purchase of 100.00 MXN in order o1 by a click of partner 21, reported by the shop's own server.
 */
export const sale = (said: Said = {}): Recorded<Claim> =>
  claimOf("conversion", { partner: partnerId, source: "batch", client_side: false, ...said });

/** The same purchase, reported by the browser. */
export const pixelSale = (said: Said = {}): Recorded<Claim> =>
  sale({ source: "pixel", client_side: true, did: "d2", ...said });

/**
 * A refund of all of order o1; with `value_minor` it refunds an amount, with `product_id` one line.
 */
export const refund = (said: Said = {}): Recorded<Claim> =>
  claimOf("refund", { t: "refund", product_id: null, product_line: null, quantity: null, value_minor: null, ...said });

/** A person's decision about all of order o1; with `line` it is about the line of that product. */
export const decide = (
  kind: Decision["kind"],
  said: Partial<Omit<Decision, "kind" | "scope">> & { readonly line?: string; readonly receivedAt?: UnixMs } = {},
): Recorded<Claim> => {
  const { line, receivedAt = noon, ...over } = said;
  const decision = {
    decision_id: someId(),
    kind,
    actor: "user:ana",
    partner_id: null,
    campaign_id: null,
    reason: "agreed with the shop",
    at: receivedAt,
    flags: [],
    review_from: 101,
    reject_from: 101,
    ...over,
  };
  const whole = decisionOnOrder(clientId, "o1", decision);
  const data: Claim =
    line === undefined
      ? whole
      : {
          ...whole,
          attributed: attributed({ event_id: someId(), product_id: line }),
          decision: { ...whole.decision!, scope: "line" },
        };
  return recorded(topics.claims, data, { at: receivedAt });
};

/** The same sale as a row of a file. */
export const fileSale = (said: Said = {}): Recorded<Claim> =>
  sale({ source: "upload", import_id: "imp_1", partner_ref: String(said.partner ?? partnerId), ...said });

/** The undo of the file that a row was in: what the row says of its order counts no more. */
export const withdraw = ({ data, receivedAt }: Recorded<Claim>, at: UnixMs = receivedAt): Recorded<Claim> => {
  const { order_key, attributed } = data;
  const { event_id, t, custom_name, order_id, product_id, import_id, partner_ref } = attributed.event;
  const about = { event_id, t, custom_name, order_id, product_id, import_id, partner_ref };
  const said = {
    kind: "take_back",
    ...{ decision_id: someId(), actor: "job_1", partner_id: null, campaign_id: null },
    ...{ reason: "undo of imp_1", at, flags: [], review_from: 101, reject_from: 101, withdraws: true },
  } as const;
  return recorded(topics.claims, { ...decisionOnLine(clientId, about, said), order_key }, { at });
};

/**
 * The result of today's rules for the line of a product of order o1, computed against a version of
 * its row. If `partner` is null, no partner is credited.
 */
export const reprocess = (
  version: number,
  said: {
    readonly partner: number | null;
    readonly line?: string;
    readonly review?: string | null;
    readonly overrides?: boolean;
    readonly recalculates?: boolean;
  },
): Recorded<Claim> => {
  const { partner, line = "sku1", ...over } = said;
  const claim = decide("reprocess", { line, actor: "job:reprocess", ...over });
  const credit = partner === null ? {} : clickCredit({ partner_id: partner, candidates: [candidate(partner)] });
  return {
    ...claim,
    data: { ...claim.data, attributed: attributed({ event_id: someId(), product_id: line }, { credit, version }) },
  };
};

/** A finding of the nightly pass about order o1, with the limits of a new client. */
export const flag = (code: string, weight: number, said: Parameters<typeof decide>[1] = {}): Recorded<Claim> =>
  decide("flag", {
    actor: "job:nightly",
    flags: [{ code, weight, evidence: code }],
    review_from: 40,
    reject_from: 70,
    ...said,
  });

/** 10.00 MXN earned by partner 21 for 100.00 MXN. */
export const entry = (over: Partial<LedgerEntry> = {}): LedgerEntry => ({
  entry_id: "led_1",
  kind: "earned",
  client_id: clientId,
  partner_id: partnerId,
  campaign_id: campaignId,
  conversion_id: "cnv_1",
  change_id: "chg_1",
  conversion_version: 1,
  event_type: "purchase",
  segment: "MX",
  currency: "MXN",
  amount_minor: 10_00n,
  lines: [
    { account: "expense:client", amount_minor: 10_00n },
    { account: "payable:partner", amount_minor: -10_00n },
  ],
  reason: null,
  contract_id: 61,
  contract_version: 1,
  commission_type: "percent",
  formula: "amount = line value x 10 %, rounded half to even to the minor unit",
  inputs: "{}",
  occurred_at: noon,
  payable_from: noon + 30 * 86_400_000,
  year: 2026,
  month: 6,
  held: false,
  reverses_entry_id: null,
  ...over,
});

/** A change record as commission reads it. */
export const change = (over: Partial<Conversion> = {}, receivedAt: UnixMs = noon): Recorded<Conversion> => {
  const data = conversion(over);
  return recorded(topics.conversions, data, { at: data.occurred_at, receivedAt });
};

/** Ten percent, thirty days of hold. */
export const terms = (over: Partial<Contracts> = {}): Contracts => ({
  contract: contract(),
  holdDays: 30,
  openMonth: null,
  openMonthAt: () => null,
  ...over,
});

/**
 * Folds events in order. Each reads the newest memory, and an event that was decided before gets
 * its recorded outcome.
 */
const driven = <In, Out, State>(
  events: readonly Recorded<In>[],
  memory: MemoryOf<State>,
  run: (event: Recorded<In>, state: State) => Outcome<Out, State, string>,
): readonly {
  readonly event: Recorded<In>;
  readonly emits: readonly Emitted<Out>[];
  readonly rejected?: string;
}[] => {
  const values = new Map<string, Uint8Array>();
  const outcomes = new Map<string, readonly Emitted<Out>[]>();
  return events.map((event) => {
    const known = outcomes.get(event.id);
    if (known !== undefined) return { event, emits: known };
    const { keys, state: before } = metBy(memory, event, values);
    const outcome = run(event, before);
    if (outcome.kind === "reject") return { event, emits: [], rejected: outcome.reason };
    if (outcome.kind !== "emit") throw new Error(`the money stages emit or reject, this one was a ${outcome.kind}`);
    for (const { key, value } of bytesOf(memory, keys, before, outcome.state)) values.set(key, value);
    outcomes.set(event.id, outcome.events);
    return { event, emits: outcome.events };
  });
};

export interface Settlement {
  readonly conversions: readonly Recorded<Conversion>[];
  readonly rows: readonly EventAttributed[];
  /** Why claims were refused. */
  readonly rejected: readonly string[];
}

/**
 * The outputs of settle for claims, in their order. A claim that comes twice has the same records
 * twice.
 */
export const settled = (...claims: readonly Recorded<Claim>[]): Settlement => settledBy(order, claims);

/** Does the same as `settled` with another form of the order memory. */
export const settledBy = (memory: MemoryOf<OrderState>, claims: readonly Recorded<Claim>[]): Settlement => {
  const conversions: Recorded<Conversion>[] = [];
  const rows: EventAttributed[] = [];
  const rejected: string[] = [];
  for (const { event, emits, rejected: reason } of driven(claims, memory, (claim, state) =>
    settle(claim, state, null),
  )) {
    if (reason !== undefined) rejected.push(reason);
    for (const emit of emits)
      if (emit.output === "attributed") rows.push(emit.data);
      else
        conversions.push(
          recorded(topics.conversions, emit.data, { at: emit.at ?? event.at, receivedAt: event.receivedAt }),
        );
  }
  return { conversions, rows, rejected };
};

/**
 * The ledger entries for conversion records, in their order. By default all have the same terms.
 */
export const committed = (
  conversions: readonly Recorded<Conversion>[],
  factsOf: (event: Recorded<Conversion>) => Contracts = () => terms(),
): readonly LedgerEntry[] =>
  driven(conversions, earned, (event, state) => commission(event, state, factsOf(event))).flatMap(({ emits }) =>
    emits.map((emit) => emit.data),
  );

/** The net amount credited to each partner: credited less reversed. */
export const netByPartner = (conversions: readonly Recorded<Conversion>[]): Readonly<Record<number, bigint>> => {
  const net: Record<number, bigint> = {};
  for (const { data } of conversions)
    net[data.partner_id] =
      (net[data.partner_id] ?? 0n) + (data.kind === "credited" ? data.value_minor : -data.value_minor);
  return net;
};
