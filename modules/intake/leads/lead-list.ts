// The list of a client's leads: its filters by stored columns, its rows with personal data, and the
// audit of each read.
import type { PoolClient } from "pg";
import { toDecimal } from "../../../domain/money.ts";
import { personalHashes, scrubText } from "../../../domain/personal/personal-data.ts";
import type { RowsQuery } from "../../../infra/postgres/rows.ts";
import { type Days, spanOf } from "../../base/days.ts";
import type { Work } from "../../base/work.ts";
import { leadRows } from "./lead-reads.ts";
import type { Leads } from "./leads.ts";

type Row = Readonly<Record<string, any>>;

export interface LeadQuery extends Days {
  readonly product?: string | undefined;
  readonly stage?: string | undefined;
  /** The whole address. */
  readonly email?: string | undefined;
  readonly attributed?: boolean | undefined;
}

/** Texts are stored with addresses replaced by their hash, so filters are hashed alike. */
export const leadsOf = (leads: Leads, clientId: number, query: LeadQuery): RowsQuery => {
  const span = spanOf(query, Date.now());
  const identify = leads.identify(clientId);
  const stored = (text: string | undefined) => (text === undefined ? undefined : scrubText(text, identify).value);
  const { product, stage, email, attributed } = query;
  return leadRows({
    ...{ clientId, ...span },
    ...{ product: stored(product), stage: stored(stage), attributed },
    email: email === undefined ? undefined : personalHashes("email", email, identify)[0]!,
  });
};

const NOTHING = { first_name: null, last_name: null, email: null, phone: null, extra: null };

/** Adds the personal data. An erased person has none. */
export const withPeople = async (
  leads: Leads,
  tx: PoolClient,
  clientId: number,
  rows: readonly Row[],
): Promise<readonly Row[]> => {
  const ids = rows.map(({ lead_id }) => lead_id);
  const people = await leads.read(tx, clientId, ids);
  return rows.map(({ lead_value, ...row }) => {
    const person = people.get(row.lead_id);
    const amount = lead_value === null ? null : toDecimal(lead_value, row.currency);
    return { ...row, lead_value: amount, ...NOTHING, ...person, erased: person === undefined };
  });
};

/** The audit has the filters and how many rows were read; it redacts the address. */
export const recordLeadRead = (
  { audit }: Work,
  clientId: number,
  action: "leads.read" | "leads.exported",
  after: LeadQuery & { readonly rows: number },
): Promise<void> => audit({ action, client_id: clientId, entity: `client:${clientId}`, after });
