// The route that explains one event.
import { toDecimal } from "../../../../domain/money.ts";
import { orUnavailable } from "../../../../infra/http/problem.ts";
import { entityOf } from "../../../../modules/money/decisions/decide.ts";
import { decisionsAbout } from "../../../../modules/money/decisions/decisions-about.ts";
import {
  type Explanation,
  explain,
  explainRemains,
  type SaleRemains,
  type Version,
} from "../../../../modules/money/explain/explanation.ts";
import { explainEvent } from "../../contract/sales/explain.ts";
import { fault, notFound } from "../../request/accept.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

export const routes = ({ clickhouse, pool }: Pick<ApiPorts, "clickhouse" | "pool">): readonly Route[] => [
  route(explainEvent, async ({ read, params: { event_id }, query: { client_id } }) => {
    const visible = await read(async (_tx, { clients }) => clients);
    const clients = client_id === undefined ? visible : visible.filter((id) => id === client_id);
    const { found, remains } = await findOf({ clickhouse, pool }, event_id, clients).catch(away);
    if (found.length + remains.length > 1)
      throw fault("/client_id", "client_id_required", "several clients have sent that id: name one");
    const [event, money] = [found[0], found[0] ?? remains[0]];
    if (money === undefined) throw notFound();
    const { client_id: of, entity } = event === undefined ? entityOfRemains(remains[0]!) : entityOfEvent(event);
    const decisions = await read((tx) => decisionsAbout(tx, of, entity));
    return { body: { ...aboutEvent(event), ...aboutMoney(money), decisions } };
  }),
];

const away = orUnavailable("events cannot be read now", 2);

/** Of an event that is stored no more, what Postgres has of it. */
const findOf = async (stores: Pick<ApiPorts, "clickhouse" | "pool">, id: string, clients: readonly number[]) => {
  const found = await explain(stores, id, clients);
  return { found, remains: found.length > 0 ? [] : await explainRemains(stores.pool, id, clients) };
};

/** A copy has the decisions of its first. */
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

const aboutEvent = (found: Explanation | undefined) => {
  if (found === undefined) return { event: null, receipt: null, decision: null, versions: [], copies: [] };
  const { client, event_id, type, at, versions, copies } = found;
  const newest = versions[0]!;
  const { sender_event_id, source, version, merged_into, batch, received_at, stored_at } = newest;
  return {
    event: { id: event_id, sender_event_id, client_id: client.client_id, t: type, at, source, version, merged_into },
    receipt: { batch_id: batch, received_at, stored_at },
    decision: {
      credit: creditOf(newest),
      window_days: newest.window_days,
      clicked_at: newest.clicked_at,
      candidates: newest.candidates.map(({ method, outcome, reference, partner_id, campaign_id }) => ({
        ...{ kind: method, reference, partner_id, campaign_id },
        ...{ won: outcome === "won", why_lost: outcome === "won" ? null : outcome },
      })),
      facts_as_of: newest.reference_as_of,
      fraud: { score: newest.fraud_score, band: newest.fraud_band, reasons: newest.fraud_reasons },
    },
    versions: versions.map((row) => ({
      ...{ version: row.version, at: row.stored_at, merged_into: row.merged_into },
      credit: creditOf(row),
    })),
    copies,
  };
};

type Money = Pick<Explanation, "conversions" | "commissions" | "entries">;

const aboutMoney = ({ conversions, commissions, entries }: Money) => ({
  conversions: conversions.map(({ conversion_id: id, value_minor, refunded_minor, ...one }) => ({
    ...one,
    id,
    value: toDecimal(value_minor, one.currency),
    refunded: toDecimal(refunded_minor, one.currency),
  })),
  commissions: commissions.map(({ commission_id: id, amount_minor, year, month, ...one }) => ({
    ...one,
    id,
    amount: toDecimal(amount_minor, one.currency),
    period: periodOf(year, month),
  })),
  ledger: entries.map(({ amount_minor, held_minor, year, month, occurred_at, lines, ...one }) => ({
    ...one,
    amount: toDecimal(amount_minor, one.currency),
    held: toDecimal(held_minor, one.currency),
    period: periodOf(year, month),
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

const periodOf = (year: number, month: number): string => `${year}-${String(month).padStart(2, "0")}`;
