// The routes of leads. Each read is recorded in the audit before leads are sent.
import { countRows } from "../../../../infra/postgres/rows.ts";
import { leadsOf, leadView, recordLeadRead, withPeople } from "../../../../modules/intake/leads/lead-list.ts";
import { leadFields, listLeads, pushLead } from "../../contract/leads/leads.ts";
import { inputOf } from "../../request/accept.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

export const routes = ({ leads }: Pick<ApiPorts, "leads">): readonly Route[] => [
  route(pushLead, async ({ query, body, bytes }) => {
    const extra = Object.fromEntries(Object.entries(body).filter(([name]) => !Object.hasOwn(leadFields, name)));
    return { body: await leads.push(query.client_id, { ...body, extra }, bytes) };
  }),

  route(listLeads, async ({ read, list, write, role, params: { id }, query }) => {
    const view = await read((tx, scope) => leadView(tx, id, scope, role));
    const rows = leadsOf(leads, view, query);
    const reply = await list(rows, (found, _scope, { tx }) => withPeople(leads, tx, view, found));
    const isFile = reply.send !== undefined;
    const count = isFile
      ? await read((tx, { clients }) => countRows(tx, rows, clients))
      : (reply.body as { readonly data: readonly unknown[] }).data.length;
    const { from, to, product, stage, email, attributed } = query;
    const after = { ...inputOf({ from, to, product, stage, email, attributed }), rows: count };
    await write((work) => recordLeadRead(work, id, isFile ? "leads.exported" : "leads.read", after), NO_ANSWER);
    return reply;
  }),
];

/** The write only records the read, and its own answer is not sent. */
const NO_ANSWER = () => ({ status: 204 });
