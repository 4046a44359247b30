// The routes of leads. Who reads one is written down before anything of it is sent.
import type { PoolClient } from "pg";
import { toDecimal } from "../../../../domain/money.ts";
import { personalHashes, scrubText } from "../../../../domain/personal/personal-data.ts";
import { countRows } from "../../../../infra/postgres/rows.ts";
import { readClient } from "../../../../modules/catalog/clients/client-reads.ts";
import { leadRows } from "../../../../modules/intake/leads/lead-reads.ts";
import type { Leads } from "../../../../modules/intake/leads/leads.ts";
import { leadFields, listLeads, pushLead } from "../../contract/leads/leads.ts";
import { defined, notFound } from "../../request/accept.ts";
import { spanOf } from "../../request/range.ts";
import { type ApiPorts, type Ask, type Reply, type Route, route } from "../../route.ts";

type Row = Readonly<Record<string, any>>;
type ListAsk = Ask<typeof listLeads>;

export const routes = ({ leads }: Pick<ApiPorts, "leads">): readonly Route[] => [
  route(pushLead, async ({ query, body, bytes }) => {
    const extra = Object.fromEntries(Object.entries(body).filter(([name]) => !Object.hasOwn(leadFields, name)));
    return { body: await leads.push(query.client_id, { ...body, extra }, bytes) };
  }),

  route(listLeads, async (ask) => {
    const { params, query } = ask;
    const clientId = params.id;
    await ask.read(async (tx, { clients }) => {
      if ((await readClient(tx, clientId, clients, [])) === undefined) throw notFound();
    });
    const rows = leadRows({ clientId, ...spanOf(query, Date.now()), ...sought(leads, clientId, query) });
    const reply = await ask.list(rows, (found, _scope, { tx }) => complete(leads, tx, clientId, found));
    const isFile = reply.send !== undefined;
    const sent = isFile
      ? await ask.read((tx, { clients }) => countRows(tx, rows, clients))
      : (reply.body as { readonly data: readonly unknown[] }).data.length;
    await audit(ask, isFile ? "leads.exported" : "leads.read", sent);
    return reply;
  }),
];

/** As they are stored: what is shaped like an address by its hash. */
const sought = (leads: Leads, clientId: number, { product, stage, email, attributed }: ListAsk["query"]) => {
  const identify = leads.identify(clientId);
  const stored = (text: string | undefined) => (text === undefined ? undefined : scrubText(text, identify).value);
  return {
    ...{ product: stored(product), stage: stored(stage), attributed },
    email: email === undefined ? undefined : personalHashes("email", email, identify)[0]!,
  };
};

const NOTHING = { first_name: null, last_name: null, email: null, phone: null, extra: null };

const complete = async (
  leads: Leads,
  tx: PoolClient,
  clientId: number,
  rows: readonly Row[],
): Promise<readonly Row[]> => {
  const people = await leads.read(
    tx,
    clientId,
    rows.map(({ lead_id }) => lead_id),
  );
  return rows.map(({ lead_value, ...row }) => {
    const person = people.get(row.lead_id);
    const amount = lead_value === null ? null : toDecimal(lead_value, row.currency);
    return { ...row, lead_value: amount, ...NOTHING, ...person, erased: person === undefined };
  });
};

/** Which filters, and how many rows; the address that was asked for is redacted. */
const audit = ({ write, params, query }: ListAsk, action: string, rows: number): Promise<Reply> =>
  write(async (work) => {
    const { from, to, product, stage, email, attributed } = query;
    const after = { ...defined({ from, to, product, stage, email, attributed }), rows };
    await work.audit({ action, client_id: params.id, entity: `client:${params.id}`, after });
    return { status: 204 };
  });
