// The routes of partners.
import type { PoolClient } from "pg";
import { dayOf } from "../../../../domain/calendar.ts";
import { mergePatch } from "../../../../infra/http/merge-patch.ts";
import { Problem } from "../../../../infra/http/problem.ts";
import { revokePendingOf } from "../../../../modules/access/invitations/invitations.ts";
import { askingOf, type Scope } from "../../../../modules/access/scope.ts";
import { readPartnerAccess, revokeUploadToken } from "../../../../modules/access/users/partner-access.ts";
import { endedByLeaving } from "../../../../modules/catalog/contracts/contract-reads.ts";
import {
  clientsAmong,
  hasNoBalance,
  linksOfPartner,
  type PartnerState,
  partnerRows,
  readPartner,
  type ShownRow,
  shownPartner,
} from "../../../../modules/catalog/partners/partner-reads.ts";
import { lockReference } from "../../../../modules/catalog/reference/writer.ts";
import * as contracts from "../../contract/partners/partners.ts";
import { PARTNER_CONFLICTS as CONFLICTS, checkPayout, newReferralCode, refuseTaken } from "../../partners/checks.ts";
import { defined, notFound } from "../../request/accept.ts";
import { checkFilter, namedClients, partnerArchived, partnerToChange } from "../../request/partner.ts";
import { type Route, route, type Work } from "../../route.ts";

/** What a change is compared by. */
const SETTINGS = ["name", "email", "status", "client_ids", "payout", "referral_code"];

export const routes = (): readonly Route[] => [
  route(contracts.listPartners, async (ask) => {
    await checkFilter(ask, ask.query.client_id);
    return ask.list(partnerRows(ask.query), async (rows) => rows.map(shownPartner));
  }),

  route(contracts.createPartner, ({ write, body, fields }) =>
    write(async (work) => {
      const { tx, scope, change, audit } = work;
      const given = defined(body);
      await namedClients(work, placesOf(given.client_ids));
      const payout = checkPayout(given.payout);
      await lockReference(tx);
      await refuseTaken(tx, [{ email: given.email, place: "" }]);
      const referral_code = given.referral_code ?? newReferralCode();
      const made = { ...given, payout, referral_code };
      const saved = await change({ partners: [{ partner_id: -1, ...made }] }, CONFLICTS);
      const id = saved.idOf("partners", -1);
      await audit({ action: "partner.created", client_id: onlyOf(made.client_ids), entity: entity(id), after: made });
      return { body: await detailOf(tx, id, scope, fields), headers: { Location: `/api/partners/${id}` } };
    }),
  ),

  route(contracts.readPartner, ({ read, params, fields, user }) =>
    read(async (tx, scope) => {
      // Partners of one client see the rows of each other by their tenant alone.
      if (user.role === "partner" && user.partner_id !== params.id) throw notFound();
      return { body: await detailOf(tx, params.id, scope, fields) };
    }),
  ),

  route(contracts.changePartner, ({ write, params, body, fields, role, checkVersion }) =>
    write(async (work) => {
      const { tx, scope, change, audit } = work;
      const { version: _, ...patch } = defined(body);
      const { state, shown: before } = await partnerToChange(work, params.id, SETTINGS);
      if (state.status === "archived" && (patch.status === undefined || role !== "admin")) throw partnerArchived();
      checkVersion(state.version);
      await checkChange(work, state, before, patch);
      if (Object.keys(patch).length > 0) {
        const clients = patch.client_ids === undefined ? undefined : await clientsAfter(work, state, patch.client_ids);
        const left = clients === undefined ? [] : state.client_ids.filter((id) => !clients.includes(id));
        await endAt(work, params.id, left);
        const changed = { ...patch, ...(clients && { client_ids: [...clients] }) };
        await change({ partners: [{ partner_id: params.id, ...changed }] }, CONFLICTS);
        const after = mergePatch(before, patch);
        const client_id = onlyOf(state.known_to);
        await audit({ action: "partner.updated", client_id, entity: entity(params.id), before, after });
      }
      return { body: await detailOf(tx, params.id, scope, fields) };
    }),
  ),

  route(contracts.archivePartner, ({ write, params, checkVersion }) =>
    write(async (work) => {
      const { tx, change, audit } = work;
      const { state } = await partnerToChange(work, params.id, []);
      checkVersion(state.version);
      if (state.status === "archived") return {};
      const { links } = await endedByLeaving(tx, params.id, state.known_to, dayOf(Date.now()));
      // Before the change, after which little time is left.
      const revoked = await revokeUploadToken(tx, params.id);
      const revoked_invitations = await revokePendingOf(tx, { partner_id: params.id });
      await change({
        partners: [{ partner_id: params.id, status: "archived" }],
        links: links.map((link_id) => ({ link_id, status: "archived" as const })),
      });
      const after = { status: "archived", revoked, revoked_invitations, links };
      const before = { status: state.status };
      const client_id = onlyOf(state.known_to);
      await audit({ action: "partner.archived", client_id, entity: entity(params.id), before, after });
      return {};
    }),
  ),
];

type Patch = Readonly<Partial<Record<"status" | "email", string>>> & {
  readonly payout?: Readonly<Partial<Record<"currency" | "min_amount", string | undefined>>>;
};

const entity = (partnerId: number): string => `partner:${partnerId}`;
/** Audit rows are those of one client, or of none in particular. */
const onlyOf = (clients: readonly number[]): number | null => (clients.length === 1 ? clients[0]! : null);
const placesOf = (ids: readonly number[]) => ids.map((id, n) => ({ id, pointer: `/client_ids/${n}` }));

/** The partner as its contract shows it. Throws Problem 404. */
const detailOf = async (
  tx: PoolClient,
  partnerId: number,
  { clients }: Scope,
  fields: readonly string[],
): Promise<ShownRow> => {
  const found = await readPartner(tx, partnerId, clients, fields);
  if (found === undefined) throw notFound();
  const links = await linksOfPartner(tx, partnerId, clients);
  return {
    ...found.shown,
    clients: await clientsAmong(tx, found.state.client_ids, clients),
    links: links.map((link) => ({ ...link, url: `/c/${link.code}` })),
    ...(fields.includes("users") && (await readPartnerAccess(tx, partnerId))),
  };
};

/** What is there already must not be taken by a partner that comes back either. */
const checkChange = async ({ tx, scope }: Work, state: PartnerState, before: ShownRow, patch: Patch): Promise<void> => {
  if (patch.email !== undefined || (state.status === "archived" && patch.status !== undefined))
    await refuseTaken(tx, [{ email: patch.email ?? before.email, place: "" }], state.partner_id);
  if (patch.payout === undefined) return;
  const payout = checkPayout({ ...before.payout, ...defined(patch.payout) });
  if (payout.currency === before.payout.currency) return;
  const { partner_id, known_to } = state;
  if (!(await askingOf(tx, scope, known_to, () => hasNoBalance(tx, partner_id, known_to))))
    throw new Problem("conflict", "the balance is not zero in the currency of before", { code: "currency_in_use" });
};

/** The clients given, and those that the caller may not see: they stay. */
const clientsAfter = async (
  work: Work,
  { client_ids }: PartnerState,
  given: readonly number[],
): Promise<readonly number[]> => {
  const { clients } = work.scope;
  await namedClients(
    work,
    placesOf(given).filter(({ id }) => !(clients.includes(id) && client_ids.includes(id))),
  );
  return [...new Set([...client_ids.filter((id) => !clients.includes(id)), ...given])];
};

/** Links go off and contracts end today where a partner leaves; sales of before are paid on. */
const endAt = async ({ tx, change }: Work, partnerId: number, clients: readonly number[]): Promise<void> => {
  if (clients.length === 0) return;
  const today = dayOf(Date.now());
  const ended = await endedByLeaving(tx, partnerId, clients, today);
  if (ended.links.length + ended.contracts.length === 0) return;
  await change({
    links: ended.links.map((link_id) => ({ link_id, status: "archived" as const })),
    contracts: ended.contracts.map(({ contract_id, hasBegun }) =>
      hasBegun ? { contract_id, effective_to: today } : { contract_id, status: "archived" as const },
    ),
  });
};
