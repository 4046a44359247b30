// Checks partners that a use case names: they must work for the client, and must be active to
// receive a link or a rule.
import type { PoolClient } from "pg";
import { sql } from "../../../infra/postgres/sql.ts";
import { archived } from "../../access/standing.ts";
import { invalid, type Refusal, type RefusalError, refuseAll } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import type { PartnerState } from "./partner-reads.ts";

export interface NamedPartner {
  readonly id: number;
  /** The place in the input that names the partner. */
  readonly path: string;
}
export type PartnerStatuses = ReadonlyMap<number, PartnerState["status"]>;

/** The status of each given partner that works for the client. */
export const partnersAt = async (
  tx: PoolClient,
  clientId: number,
  partners: readonly number[],
): Promise<PartnerStatuses> => {
  const { rows } = await tx.query<Pick<PartnerState, "partner_id" | "status">>(sql`
    select partner_id, status from (
      select distinct on (partner_id) partner_id, status, client_ids from partners
      where partner_id = any (${partners}::int[]) order by partner_id, version desc) newest
    where ${clientId} = any (client_ids)`);
  return new Map(rows.map(({ partner_id, status }) => [partner_id, status]));
};

/** The refusal of a partner that does not work for the client. */
export const notOfClient = (path: string, message: string): RefusalError =>
  invalid(path, "partner_not_of_client", message);

const refuseEach = (named: readonly NamedPartner[], refusal: Omit<Refusal, "path">): void =>
  refuseAll(named.map(({ path }) => ({ ...refusal, path })));

/**
 * Returns the status of each. A partner of other clients is refused in the same words as one that
 * does not exist. Throws RefusalError: invalid `partner_not_of_client`.
 */
export const namedPartners = async (
  { tx }: Pick<Work, "tx">,
  clientId: number,
  named: readonly NamedPartner[],
): Promise<PartnerStatuses> => {
  const ids = named.map(({ id }) => id);
  const statuses = await partnersAt(tx, clientId, ids);
  refuseAll(
    named
      .filter(({ id }) => !statuses.has(id))
      .flatMap(({ path }) => notOfClient(path, "no partner of this id works for the client").refusals),
  );
  return statuses;
};

/** Throws RefusalError: invalid `duplicate_item` for a partner that is named twice. */
export const refuseRepeated = (named: readonly NamedPartner[]): void =>
  refuseEach(
    named.filter(({ id }, n) => named.findIndex((one) => one.id === id) !== n),
    { kind: "invalid", code: "duplicate_item", message: "name each partner once" },
  );

/**
 * A paused or archived partner gets no link and no rule. Throws RefusalError `partner_inactive`.
 */
export const refuseInactive = (statuses: PartnerStatuses, named: readonly NamedPartner[]): void =>
  refuseEach(
    named.filter(({ id }) => !["active", "invited"].includes(statuses.get(id) ?? "")),
    { kind: "conflict", code: "partner_inactive", message: "this partner is paused or archived" },
  );

/** Throws RefusalError `partner_archived`. */
export const refuseArchived = (statuses: PartnerStatuses, named: readonly NamedPartner[]): void =>
  refuseAll(
    named
      .filter(({ id }) => statuses.get(id) === "archived")
      .flatMap(({ path }) => archived("partner", { path }).refusals),
  );
