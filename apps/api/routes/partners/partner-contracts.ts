// The routes of the contracts of a partner and their versions.
import { dayOf } from "../../../../domain/calendar.ts";
import { contractOf, contractRows, shownContract } from "../../../../modules/catalog/contracts/contract-reads.ts";
import { saveContract } from "../../../../modules/catalog/contracts/save.ts";
import { openPartnerFor } from "../../../../modules/catalog/partners/partner-detail.ts";
import * as contracts from "../../contract/partners/partner-contracts.ts";
import { checkFilter } from "../../request/filter.ts";
import { type Route, route } from "../../route.ts";

export const routes = (): readonly Route[] => [
  route(contracts.listPartnerContracts, async (ask) => {
    const { params, query } = ask;
    await ask.read((tx, scope) => openPartnerFor(tx, scope, ask.user, params.id));
    await checkFilter(ask, query.client_id);
    const { history, ...filter } = query;
    const rows = contractRows(params.id, dayOf(Date.now()), { ...filter, hasHistory: history === "true" });
    return ask.list(rows, async (found) => found.map(shownContract));
  }),

  route(contracts.savePartnerContract, ({ write, params, input: terms, fields, version }) => {
    const { client_id, segment, event_type, effective_from } = terms;
    const key = { partner_id: params.id, client_id, segment, event_type, effective_from };
    return write(
      (work) => saveContract(work, { key, terms: { ...terms, ...key, status: "active" }, version }),
      async ({ isNew, notApplied }, { tx, now }) => ({
        status: isNew ? 201 : 200,
        body: { ...(await contractOf(tx, key, fields, dayOf(now))), not_applied_to: notApplied },
        headers: { Location: `/api/partners/${params.id}/segment-commissions` },
      }),
    );
  }),
];
