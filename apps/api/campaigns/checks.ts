// What a change of a campaign must keep to: its state, the hosts of the client, and whose partners
// it names.
import { Problem, type ProblemParts } from "../../../infra/http/problem.ts";
import {
  type CampaignState,
  campaignState,
  isMove,
  type Pattern,
  partnersAt,
} from "../../../modules/catalog/campaigns/campaign-reads.ts";
import { openClient } from "../../../modules/catalog/clients/open-client.ts";
import { isAllowed, readPixelConfig } from "../../../modules/catalog/pixel/pixel-config.ts";
import { lockReference } from "../../../modules/catalog/reference/open-change.ts";
import { notFound } from "../request/accept.ts";
import type { Work } from "../route.ts";

type Fault = NonNullable<ProblemParts["errors"]>[number];
type Named = readonly [partnerId: number, pointer: string];

const refuse = (faults: readonly Fault[]): void => {
  if (faults.length > 0) throw new Problem("validation_failed", "the body is not acceptable", { errors: faults });
};
const conflict = (code: string, detail: string): Problem => new Problem("conflict", detail, { code });

/**
 * The campaign and no other change of reference data until the commit. Throws Problem 404, and 409
 * when it or its client is archived.
 */
export const campaignToChange = async (work: Work, campaignId: number): Promise<CampaignState> => {
  await lockReference(work.tx);
  const found = await campaignState(work.tx, campaignId, work.scope.clients);
  if (found === undefined) throw notFound();
  await openClient(work, found.client_id);
  if (found.archived) throw conflict("campaign_archived", "this campaign is archived");
  return found;
};

export type Status = CampaignState["status"];
/** Throws Problem 409. */
export const checkMove = (from: Status, to: Status | undefined): void => {
  if (to === undefined || isMove(from, to)) return;
  throw conflict("invalid_transition", `a campaign does not go from ${from} to ${to} this way`);
};

/** Throws Problem 400 for a page outside of the hosts that the pixel of the client works on. */
export const checkHosts = async (
  { tx, scope }: Work,
  clientId: number,
  given: { readonly destination_url?: string; readonly fallback_url?: string | null },
): Promise<void> => {
  const domains = (await readPixelConfig(tx, clientId, scope.clients))?.allowed_domains ?? [];
  refuseForeign(domains, given);
};

/** The same of hosts that are known; `place` is that of the campaign. */
export const refuseForeign = (
  domains: readonly string[],
  given: { readonly destination_url?: string; readonly fallback_url?: string | null },
  place = "",
): void => {
  const foreign = (["destination_url", "fallback_url"] as const).filter(
    (name) => given[name] != null && !isAllowed(given[name], domains),
  );
  refuse(
    foreign.map((name) => ({
      pointer: `${place}/${name}`,
      code: "foreign_destination",
      detail: "its host is none of the client's: add it to the allowed domains of the pixel",
    })),
  );
};

/**
 * Throws Problem 400 for those that do not work for the client: unknown ones, and of others, in the
 * same words. Answers the status of each.
 */
export const checkPartners = async ({ tx }: Work, clientId: number, named: readonly Named[]) => {
  const known = await partnersAt(
    tx,
    clientId,
    named.map(([partnerId]) => partnerId),
  );
  refuse(
    named
      .filter(([partnerId]) => !known.has(partnerId))
      .map(([, pointer]) => ({
        pointer,
        code: "partner_not_of_client",
        detail: "no partner of this id works for the client",
      })),
  );
  return known;
};

/** Partners that patterns name, with their places. */
export const partnersOfPatterns = (patterns: readonly { readonly partner_id?: number | undefined }[] = []) =>
  patterns.flatMap(({ partner_id }, n): readonly Named[] =>
    partner_id === undefined ? [] : [[partner_id, `/patterns/${n}/partner_id`]],
  );

/** Throws Problem 400 for a partner that is named twice. */
export const checkOnce = (partners: readonly number[], pointer: string): void =>
  refuse(
    partners.flatMap((partnerId, n) =>
      partners.indexOf(partnerId) === n
        ? []
        : [{ pointer: `${pointer}/${n}`, code: "duplicate_item", detail: "name each partner once" }],
    ),
  );

/** Throws Problem 409 for one that may not get a link now. */
export const checkActive = (statuses: ReadonlyMap<number, string>, named: readonly Named[]): void => {
  const errors = named
    .filter(([partnerId]) => !["active", "invited"].includes(statuses.get(partnerId) ?? ""))
    .map(([, pointer]) => ({ pointer, code: "partner_inactive", detail: "this partner is paused or archived" }));
  if (errors.length > 0)
    throw new Problem("conflict", "a partner is paused or archived", { code: "partner_inactive", errors });
};

/** What may be meant otherwise, and is saved all the same. */
export const warningsOf = (patterns: readonly Pattern[], partners: number) =>
  patterns.flatMap(({ kind, partner_id }, n) =>
    kind === "coupon" && partner_id === undefined && partners > 1
      ? [
          {
            code: "coupon_without_partner",
            pointer: `/patterns/${n}`,
            detail: "several partners have links here: a sale with this coupon alone is credited to none of them",
          },
        ]
      : [],
  );
