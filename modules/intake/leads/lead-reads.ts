// Lists leads for the platform API. modules/intake/leads/leads.ts adds the personal data.
import type { RowsQuery } from "../../../infra/postgres/rows.ts";
import { type Sql, sql } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";

export interface LeadFilter {
  readonly clientId: number;
  /** Times of receipt: inclusive start and exclusive end. */
  readonly from: UnixMs;
  readonly to: UnixMs;
  readonly product?: string | undefined;
  readonly stage?: string | undefined;
  /** A keyed hash. */
  readonly email?: string | undefined;
  readonly attributed?: boolean | undefined;
}

/** The credit of the lead, or the one that it gave to an earlier copy. */
const credit = sql`left join lateral (
  select partner_id, campaign_id from conversions
  where client_id = l.client_id and status = 'credited'
    and (event_id = l.event_id or cause_event_id = l.event_id)
  order by conversion_id limit 1) credit on true`;

export const leadRows = ({ clientId, from, to, product, stage, email, attributed }: LeadFilter): RowsQuery => {
  const given: readonly (Sql | undefined)[] = [
    sql`l.client_id = ${clientId}`,
    sql`l.received_at >= ${new Date(from)} and l.received_at < ${new Date(to)}`,
    product === undefined ? undefined : sql`l.product = ${product}`,
    stage === undefined ? undefined : sql`l.stage = ${stage}`,
    email === undefined ? undefined : sql`p.email = ${email}`,
    attributed === undefined ? undefined : sql`(credit.partner_id is not null) = ${attributed}`,
  ];
  return {
    columns: {
      lead_id: sql`l.lead_id`,
      client_lead_id: sql`l.client_lead_id`,
      product: sql`l.product`,
      stage: sql`l.stage`,
      lead_value: sql`l.value_minor`,
      currency: sql`l.currency`,
      event_time: sql`l.event_at`,
      received_at: sql`l.received_at`,
      day: sql`to_char(l.received_at at time zone 'America/Mexico_City', 'YYYY-MM-DD')`,
      attributed: sql`credit.partner_id is not null`,
      partner_id: sql`credit.partner_id`,
      campaign_id: sql`credit.campaign_id`,
    },
    from: sql`leads l left join lead_people p using (client_id, lead_id) ${credit}`,
    tenant: sql`l.client_id`,
    where: given.filter((part): part is Sql => part !== undefined),
    sorts: { received_at: { by: sql`l.received_at`, type: "timestamptz" } },
    id: { by: sql`l.lead_id`, type: "text" },
  };
};
