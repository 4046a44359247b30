// Gathers all stored data about one event: its reads, the candidates for its credit, the decision,
// and its earnings.
import type pg from "pg";
import { type Contract, type Reference, type Rule, reference } from "../../../domain/reference/reference.ts";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { scopeOf } from "../../../infra/clickhouse/query.ts";
import { keysOfEvent } from "../../../processors/attribute/claims.ts";
import type { OrderState } from "../../../processors/settle/order.ts";
import { waitingOf } from "../../../processors/settle/waiting-items.ts";
import type { Candidate, EventReceived, FraudReason } from "../../../schemas/generated.ts";
import { copiesOf, type EventVersion, eventVersions } from "../../../sinks/analytics/reads.ts";
import { openReference } from "../../catalog/reference/reference.ts";
import { eventNames, storedAs } from "../orders/event-names.ts";
import { type CommissionOf, type ConversionOf, type EntryOf, moneyOf, salesCalled } from "./money-of.ts";
import { type TakenBack, takenBackBy } from "./taken-back.ts";

export type Version = Omit<EventVersion, "candidates" | "fraud_reasons"> & {
  readonly candidates: readonly Candidate[];
  readonly fraud_reasons: readonly FraudReason[];
};
/**
 * A line of the order as settle remembers it, without the row that settle keeps to merge copies.
 */
interface LineState {
  readonly product_key: string;
  readonly status: string;
  readonly partner_id: number | null;
  readonly event_id: string;
  readonly value_minor: bigint;
  readonly refunded_minor: bigint;
  readonly currency: string;
  readonly review: string | null;
  readonly conversion_id: string | null;
  readonly copies: number;
  /** The copy whose amount counts, and when it happened. Null: the first copy's does. */
  readonly money_from: { readonly event_id: string; readonly at: number } | null;
  /** The total that was merged into the lines of the order, because they come to it. */
  readonly total_from: string | null;
  /** A person kept this total, or this line against a total. */
  readonly stands: boolean;
  /** When the sale arrived. A decision writes the event again, and that row is younger. */
  readonly received_at: number;
  /** Whose time dates its money, and why not the event's. Null: not judged, it is the event's. */
  readonly dated: { readonly at: number; readonly by: string; readonly because: string | null } | null;
}
export interface Explanation {
  readonly client: { readonly client_id: number; readonly slug: string; readonly name: string };
  readonly event_id: string;
  readonly type: string;
  /** Event time: the sender's, but not later than the receipt. */
  readonly at: number;
  /** Newest first; older versions only as long as the store has not merged them away. */
  readonly versions: readonly Version[];
  readonly copies: Awaited<ReturnType<typeof copiesOf>>;
  readonly order: {
    readonly order_key: string;
    readonly lines: readonly LineState[];
    /** Refunds that arrived before any line of theirs. */
    readonly waiting_refunds: number;
    /** Refunds whose currency no line of theirs has. */
    readonly refunds_in_other_currency: number;
    /**
     * The amount by which refunds exceed the order, once its lines are complete; it is deducted
     * from no partner.
     */
    readonly void_refunds: readonly { readonly currency: string | null; readonly amount_minor: bigint | null }[];
  } | null;
  readonly conversions: readonly ConversionOf[];
  readonly entries: readonly EntryOf[];
  readonly commissions: readonly CommissionOf[];
  /** For a refund, the entries that it caused; null for other events. */
  readonly taken_back: TakenBack | null;
  /** The rules that were in force when the event was decided. */
  readonly rules: readonly (Pick<Rule, "rule_id" | "version" | "name" | "priority" | "when"> & {
    readonly credits: Rule["then"];
  })[];
  readonly contracts: readonly Contract[];
  /** Names of all partners that the explanation mentions. */
  readonly partners: Readonly<Record<number, string>>;
  readonly campaigns: Readonly<Record<number, string>>;
}

const find = async (clickhouse: Clickhouse, id: string, clientIds: readonly number[]) => {
  const stored = await storedAs(clickhouse, id, clientIds);
  const found = await Promise.all(
    stored.map(async ({ client_id: clientId, event_id, ...times }) => ({
      clientId,
      rows: await eventVersions(clickhouse, scopeOf(clientId), event_id, times),
    })),
  );
  // Drops events that the consent of their device no longer allows to be shown; they are still
  // stored.
  return found.filter(({ rows }) => rows.length > 0);
};

/** The remains of a sale whose event is no longer stored: its decisions and earnings. */
export interface SaleRemains extends Pick<Explanation, "event_id" | "conversions" | "entries" | "commissions"> {
  readonly client_id: number;
  readonly order_id: string | null;
}

/** Returns sales of that id that Postgres still has, whether their events are stored or not. */
export const explainRemains = async (
  pool: pg.Pool,
  id: string,
  clientIds: readonly number[],
): Promise<readonly SaleRemains[]> => {
  const found = await salesCalled(pool, clientIds, eventNames(id, clientIds));
  return Promise.all(
    found.map(async ({ client_id, event_id, order_id }) => {
      const {
        order: _,
        orderKey: __,
        ...money
      } = await moneyOf(pool, {
        ...{ clientId: client_id, eventIds: [event_id], orderKeys: [`o:${order_id ?? ""}`], isRefund: false },
      });
      return { client_id, event_id, order_id, ...money };
    }),
  );
};

export interface ExplanationStores {
  readonly clickhouse: Clickhouse;
  readonly pool: pg.Pool;
}

/**
 * Returns one explanation for each client with such an event: two clients may have sent the same
 * id.
 */
export const explain = async (
  stores: ExplanationStores,
  id: string,
  clientIds: readonly number[],
): Promise<readonly Explanation[]> => {
  const found = await find(stores.clickhouse, id, clientIds);
  const opened = openReference(stores.pool);
  try {
    const known = await opened.read(reference, Date.now());
    return await Promise.all(found.map(({ clientId, rows }) => explanationOf(stores, known, clientId, rows)));
  } finally {
    await opened.close();
  }
};

const explanationOf = async (
  { clickhouse, pool }: ExplanationStores,
  known: Reference,
  clientId: number,
  rows: readonly EventVersion[],
): Promise<Explanation> => {
  // The store has merged away some older versions, so each remaining one describes only itself.
  const newest = rows[0]!;
  const at = Math.min(newest.ts, newest.received_at);
  const orderKeys = keysOfEvent({ ...newest, client_id: clientId, value_minor: null } as unknown as EventReceived);
  const isRefund = newest.t === "refund";
  const eventIds = [newest.event_id, ...(newest.merged_into === null ? [] : [newest.merged_into])];
  const money = await moneyOf(pool, { clientId, eventIds, orderKeys, isRefund });
  const copies = await copiesOf(clickhouse, scopeOf(clientId), newest.event_id);
  const versions = rows.map(({ candidates, fraud_reasons, ...row }) => ({
    ...row,
    candidates: JSON.parse(candidates) as readonly Candidate[],
    fraud_reasons: JSON.parse(fraud_reasons) as readonly FraudReason[],
  }));
  const then = known.at(at, newest.received_at);
  const now = known.at(Date.now(), Number.MAX_SAFE_INTEGER);
  const ruleIds = new Set([newest.rule_id, ...ruleIdsIn(versions[0]!.candidates)]);
  const client = now.client(clientId);
  return {
    client: { client_id: clientId, slug: client?.slug ?? String(clientId), name: client?.name ?? "" },
    event_id: newest.event_id,
    type: newest.custom_name ?? newest.t,
    at,
    versions,
    copies,
    order: money.order === null ? null : orderStateOf(money.orderKey, money.order),
    conversions: money.conversions,
    entries: money.entries,
    commissions: money.commissions,
    taken_back: isRefund ? takenBackBy(newest.event_id, newest.merged_into !== null, money) : null,
    rules: then
      .rules(clientId)
      .filter(({ rule_id }) => ruleIds.has(rule_id))
      .map(({ rule_id, version, name, priority, when, then: credits }) => ({
        rule_id,
        version,
        name,
        priority,
        when,
        credits,
      })),
    contracts: contractsOf(clientId, money, (at) => known.at(at, newest.received_at)),
    ...namesOf(versions, money.conversions, money.entries, now),
  };
};

const ruleIdsIn = (candidates: readonly Candidate[]): readonly number[] =>
  candidates.filter(({ method }) => method === "rule").map(({ reference: id }) => Number(id));

const OTHER_CURRENCY = "other_currency";

const orderStateOf = (order_key: string, state: OrderState): Explanation["order"] => {
  const waiting = waitingOf(state, Date.now());
  return {
    order_key,
    waiting_refunds: waiting.filter(({ kind, reason }) => kind === "refund" && reason !== OTHER_CURRENCY).length,
    refunds_in_other_currency: waiting.filter(({ reason }) => reason === OTHER_CURRENCY).length,
    void_refunds: waiting
      .filter(({ kind }) => kind === "void")
      .map(({ currency, amount_minor }) => ({ currency, amount_minor })),
    lines: state.lines.map((line) => ({
      product_key: line.product_key,
      status: line.status,
      partner_id: line.partner_id,
      event_id: line.event_id,
      value_minor: line.value_minor,
      refunded_minor: line.refunded_minor,
      currency: line.currency,
      review: line.review,
      conversion_id: line.conversion_id,
      copies: line.copies,
      money_from: line.money_from,
      total_from: line.total_from,
      stands: line.stands,
      received_at: line.received_at,
      dated: line.dated === null ? null : { at: line.at, by: line.dated.by, because: line.dated.because },
    })),
  };
};

/** Returns the contracts that the entries name, each as it was in force for the sale. */
const contractsOf = (
  client_id: number,
  money: { readonly conversions: readonly ConversionOf[]; readonly entries: readonly EntryOf[] },
  then: (at: number) => ReturnType<Reference["at"]>,
) => {
  const found = money.conversions.map((one) =>
    then(one.occurred_at).contract({
      client_id,
      partner_id: one.partner_id,
      segment: one.segment,
      event_type: one.event_type,
    }),
  );
  const named = new Set(money.entries.map(({ contract_id }) => contract_id));
  const byId = new Map(
    found.filter((one) => one !== undefined && named.has(one.contract_id)).map((one) => [one!.contract_id, one!]),
  );
  return [...byId.values()];
};

const namesOf = (
  versions: readonly Version[],
  conversions: readonly ConversionOf[],
  entries: readonly EntryOf[],
  now: ReturnType<Reference["at"]>,
) => {
  const mentioned = [...versions, ...versions.flatMap(({ candidates }) => candidates), ...conversions];
  const partnerIds = new Set(
    [...mentioned, ...entries].map(({ partner_id }) => partner_id).filter((id) => id !== null),
  );
  const campaignIds = new Set(mentioned.map(({ campaign_id }) => campaign_id).filter((id) => id !== null));
  return {
    partners: Object.fromEntries([...partnerIds].map((id) => [id, now.partner(id)?.name ?? ""])),
    campaigns: Object.fromEntries([...campaignIds].map((id) => [id, now.campaign(id)?.name ?? ""])),
  };
};
