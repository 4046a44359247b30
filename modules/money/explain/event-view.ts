// The explanation of one event in the form of the platform API: amounts as decimals, and people's
// decisions.
import { toDecimal } from "../../../domain/money.ts";
import { orUnavailable } from "../../../infra/runtime/errors.ts";
import { missing } from "../../base/refusal.ts";
import type { ScopedRead } from "../../base/work.ts";
import { monthText } from "../../catalog/budgets/pace.ts";
import { entityOf } from "../decisions/decide.ts";
import { decisionsAbout } from "../decisions/decisions-about.ts";
import { severalClients } from "../decisions/find-sales.ts";
import {
  type Explanation,
  type ExplanationStores,
  explain,
  explainRemains,
  type SaleRemains,
  type Version,
} from "./explanation.ts";

export interface EventName {
  readonly event_id: string;
  /** Undefined: any client of the caller. */
  readonly client_id?: number | undefined;
}

/**
 * Explains the event of this id. Throws Unavailable, and RefusalError: missing, or invalid
 * `client_id_required` where several clients have sent that id.
 */
export const eventView = async (stores: ExplanationStores, read: ScopedRead, { event_id, client_id }: EventName) => {
  const visible = await read(async (_tx, { clients }) => clients);
  const clients = client_id === undefined ? visible : visible.filter((id) => id === client_id);
  const { found, remains } = await explained(stores, event_id, clients).catch(eventsAway);
  if (found.length + remains.length > 1) throw severalClients("sent that id");
  const [event, money] = [found[0], found[0] ?? remains[0]];
  if (money === undefined) throw missing();
  const about = event === undefined ? entityOfRemains(remains[0]!) : entityOfEvent(event);
  const decisions = await read((tx) => decisionsAbout(tx, about.client_id, about.entity));
  return { ...aboutEvent(event), ...aboutMoney(money), decisions };
};

const eventsAway = orUnavailable("events cannot be read now", 2);

interface ExplainedEvents {
  readonly found: readonly Explanation[];
  /** Sales whose events are no longer stored; none where an event was found. */
  readonly remains: readonly SaleRemains[];
}
const explained = async (
  stores: ExplanationStores,
  id: string,
  clients: readonly number[],
): Promise<ExplainedEvents> => {
  const found = await explain(stores, id, clients);
  return { found, remains: found.length > 0 ? [] : await explainRemains(stores.pool, id, clients) };
};

/** A copy shares the decisions about the sale that it is a copy of. */
const entityOfEvent = ({ client: { client_id }, event_id, versions }: Explanation) => {
  const { order_id, merged_into } = versions[0]!;
  return { client_id, entity: entityOf(client_id, order_id, merged_into ?? event_id) };
};
const entityOfRemains = ({ client_id, event_id, order_id }: SaleRemains) => ({
  ...{ client_id, entity: entityOf(client_id, order_id, event_id) },
});

const creditOf = (row: Version) => ({
  status: row.credit_status,
  method: row.credit_method,
  reason: row.credit_reason,
  partner_id: row.partner_id,
  campaign_id: row.campaign_id,
  rule_id: row.rule_id,
  rule_version: row.rule_version,
});

const aboutEvent = (explanation: Explanation | undefined) => {
  if (explanation === undefined) return { event: null, receipt: null, decision: null, versions: [], copies: [] };
  const { client, event_id, type, at, versions, copies } = explanation;
  const newest = versions[0]!;
  const { sender_event_id, source, version, merged_into, batch, received_at, stored_at } = newest;
  return {
    event: { id: event_id, sender_event_id, client_id: client.client_id, t: type, at, source, version, merged_into },
    receipt: { batch_id: batch, received_at, stored_at },
    decision: decisionOf(newest),
    versions: versions.map((row) => ({
      ...{ version: row.version, at: row.stored_at, merged_into: row.merged_into },
      credit: creditOf(row),
    })),
    copies,
  };
};

const decisionOf = (version: Version) => ({
  credit: creditOf(version),
  window_days: version.window_days,
  clicked_at: version.clicked_at,
  candidates: version.candidates.map(({ method, outcome, reference, partner_id, campaign_id }) => ({
    ...{ kind: method, reference, partner_id, campaign_id },
    ...{ won: outcome === "won", why_lost: outcome === "won" ? null : outcome },
  })),
  facts_as_of: version.reference_as_of,
  fraud: { score: version.fraud_score, band: version.fraud_band, reasons: version.fraud_reasons },
});

type Money = Pick<Explanation, "conversions" | "commissions" | "entries">;

const aboutMoney = ({ conversions, commissions, entries }: Money) => ({
  conversions: conversions.map(({ conversion_id: id, value_minor, refunded_minor, is_opened_again: _, ...one }) => ({
    ...one,
    id,
    value: toDecimal(value_minor, one.currency),
    refunded: toDecimal(refunded_minor, one.currency),
  })),
  commissions: commissions.map(({ commission_id: id, amount_minor, year, month, ...one }) => ({
    ...one,
    id,
    amount: toDecimal(amount_minor, one.currency),
    period: monthText({ year, month }),
  })),
  ledger: entries.map(({ amount_minor, held_minor, year, month, occurred_at, lines, ...one }) => ({
    ...one,
    amount: toDecimal(amount_minor, one.currency),
    held: toDecimal(held_minor, one.currency),
    period: monthText({ year, month }),
    at: occurred_at,
    lines: lines.map((line) => ({ account: line.account, amount: toDecimal(BigInt(line.amount_minor), one.currency) })),
  })),
  as_known_now: [...new Set(entries.map(({ currency }) => currency))].sort().map((currency) => ({
    currency,
    commission: toDecimal(
      entries.reduce((sum, one) => (one.currency === currency ? sum + one.amount_minor : sum), 0n),
      currency,
    ),
  })),
});
