// The list of a client's leads: its filters by stored columns, its rows with personal data, and the
// audit of each read.
import type { PoolClient } from "pg";
import { toDecimal } from "../../../domain/money.ts";
import { MASK, maskedAddress } from "../../../domain/personal/masked-address.ts";
import { personalHashes, scrubText } from "../../../domain/personal/personal-data.ts";
import type { RowsQuery } from "../../../infra/postgres/rows.ts";
import { type Days, spanOf } from "../../base/days.ts";
import { invalid } from "../../base/refusal.ts";
import type { Scope, Work } from "../../base/work.ts";
import { clientOf } from "../../catalog/clients/client-reads.ts";
import type { LeadContent } from "./lead-cipher.ts";
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

/** Whose leads are read, and how their persons are shown. */
export interface LeadView {
  readonly clientId: number;
  readonly isMasked: boolean;
}

/** Users of the client read masked leads where it has said so (`leads_in_plain`: false). */
export const leadView = async (
  tx: PoolClient,
  clientId: number,
  { clients }: Scope,
  role: string | undefined,
): Promise<LeadView> => {
  const { shown } = await clientOf(tx, clientId, clients, ["leads_in_plain"]);
  return { clientId, isMasked: role === "client_user" && shown.leads_in_plain === false };
};

/**
 * Texts are stored with addresses replaced by their hash, so filters are hashed alike. Throws
 * RefusalError for the address of a masked lead: what it finds says whose it is.
 */
export const leadsOf = (leads: Leads, { clientId, isMasked }: LeadView, query: LeadQuery): RowsQuery => {
  const span = spanOf(query, Date.now());
  const identify = leads.identify(clientId);
  const stored = (text: string | undefined) => (text === undefined ? undefined : scrubText(text, identify).value);
  const { product, stage, email, attributed } = query;
  if (isMasked && email !== undefined)
    throw invalid("/email", "unknown_field", "this client shows its users masked leads, which no address finds");
  return leadRows({
    ...{ clientId, ...span },
    ...{ product: stored(product), stage: stored(stage), attributed },
    email: email === undefined ? undefined : personalHashes("email", email, identify)[0]!,
  });
};

const hidden = (value: string | null): string | null => (value === null ? null : MASK);

/** Fields of other names may say anything, so only the names are shown. */
const maskedPerson = ({ client_lead_id, first_name, last_name, email, phone, extra }: LeadContent): LeadContent => ({
  client_lead_id,
  first_name: hidden(first_name),
  last_name: hidden(last_name),
  email: email === null ? null : maskedAddress(email),
  phone: hidden(phone),
  extra: Object.fromEntries(Object.keys(extra).map((name) => [name, MASK])),
});

const NOTHING = { first_name: null, last_name: null, email: null, phone: null, extra: null };

/** Adds the personal data, masked or plain. An erased person has none. */
export const withPeople = async (
  leads: Leads,
  tx: PoolClient,
  { clientId, isMasked }: LeadView,
  rows: readonly Row[],
): Promise<readonly Row[]> => {
  const ids = rows.map(({ lead_id }) => lead_id);
  const people = await leads.read(tx, clientId, ids);
  return rows.map(({ lead_value, ...row }) => {
    const known = people.get(row.lead_id);
    const person = known !== undefined && isMasked ? maskedPerson(known) : known;
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
