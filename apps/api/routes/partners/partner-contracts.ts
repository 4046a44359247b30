// The routes of what a partner earns: its contracts, their versions, and what they do not touch.
import { dayOf } from "../../../../domain/calendar.ts";
import { Problem } from "../../../../infra/http/problem.ts";
import {
  type ClosedMonth,
  closedMonthOf,
  daysChanged,
  fieldOf,
} from "../../../../modules/catalog/contracts/closed-month.ts";
import {
  type ContractKey,
  contractOf,
  contractRows,
  settledBefore,
  shownContract,
} from "../../../../modules/catalog/contracts/contract-reads.ts";
import { readPartner } from "../../../../modules/catalog/partners/partner-reads.ts";
import * as contracts from "../../contract/partners/partner-contracts.ts";
import { checkNotFrozen } from "../../planner/checks.ts";
import { fault, notFound } from "../../request/accept.ts";
import { checkFilter, namedClients, partnerArchived, partnerToChange } from "../../request/partner.ts";
import { type Route, route } from "../../route.ts";

export const routes = (): readonly Route[] => [
  route(contracts.listPartnerContracts, async (ask) => {
    const { params, query } = ask;
    await ask.read(async (tx, { clients }) => {
      if ((await readPartner(tx, params.id, clients, [])) === undefined) throw notFound();
    });
    await checkFilter(ask, query.client_id);
    const { history, ...filter } = query;
    const rows = contractRows(params.id, dayOf(Date.now()), { ...filter, hasHistory: history === "true" });
    return ask.list(rows, async (found) => found.map(shownContract));
  }),

  route(contracts.savePartnerContract, ({ write, params, body, fields, checkVersion }) =>
    write(async (work) => {
      const { tx, change, audit } = work;
      const { version: _, ...terms } = body;
      const { client_id, segment, event_type, effective_from, effective_to } = terms;
      const { state } = await partnerToChange(work, params.id, []);
      const [client] = await namedClients(work, [{ id: client_id, pointer: "/client_id" }]);
      if (!state.client_ids.includes(client_id))
        throw fault("/client_id", "partner_not_of_client", `partner ${params.id} does not work for this client`);
      if (state.status === "archived") throw partnerArchived();
      const now = Date.now();
      const key: ContractKey = { partner_id: params.id, client_id, segment, event_type, effective_from };
      const before = await contractOf(tx, key, fields, dayOf(now));
      checkVersion(before?.version ?? 0);
      // Before the change, after which little time is left.
      const notApplied = await settledBefore(tx, key, effective_to, client!.currency);
      await change({ contracts: [{ ...terms, partner_id: params.id, status: "active" }] });
      const after = (await contractOf(tx, key, fields, dayOf(now)))!;
      refuseClosed(closedMonthOf(before, after, now));
      const changed = daysChanged(before, after);
      if (changed !== undefined) await checkNotFrozen(work, key, changed, `/${fieldOf(changed.from, after)}`);
      await audit({
        action: before === undefined ? "contract.created" : "contract.versioned",
        client_id,
        entity: `contract:${after.id}`,
        before,
        after,
      });
      return {
        status: before === undefined ? 201 : 200,
        body: { ...after, not_applied_to: notApplied },
        headers: { Location: `/api/partners/${params.id}/segment-commissions` },
      };
    }),
  ),
];

/** Terms of a locked month stay. A contract that began then can still end, or go on. */
const refuseClosed = (closed: ClosedMonth | null): void => {
  if (closed === null) return;
  const { field, detail } = closed;
  throw new Problem("conflict", detail, {
    code: "month_closed",
    errors: [{ pointer: `/${field}`, code: "month_closed", detail }],
  });
};
