// Fields of a campaign that need more than their shape: pages on hosts of the client, patterns of
// its partners, and moves from one status to another.
import { dayOf } from "../../../domain/calendar.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { conflict, invalid, type Refusal, refuseAll } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import type { NamedPartner } from "../partners/named-partners.ts";
import { isAllowed, readPixelConfig } from "../pixel/pixel-config.ts";
import type { CampaignState, Pattern } from "./campaign-reads.ts";

export interface CampaignFields {
  readonly name: string;
  readonly starts_on: string | null;
  readonly ends_on: string | null;
  readonly destination_url: string;
  readonly fallback_url: string | null;
  readonly patterns: readonly Pattern[];
}
/** As a change of reference data takes them. */
export const recordOf = ({ patterns, ...fields }: Partial<CampaignFields>) => ({
  ...fields,
  ...(patterns !== undefined && { patterns: [...patterns] }),
});

type Pages = Partial<Pick<CampaignFields, "destination_url" | "fallback_url">>;

/** Moves by a change: a launch alone starts a draft, and what has ended stays so. */
const MOVES: Readonly<Record<CampaignState["status"], readonly CampaignState["status"][]>> = {
  draft: [],
  active: ["paused", "ended"],
  paused: ["active", "ended"],
  ended: [],
};

/** Throws RefusalError `invalid_transition`. */
export const refuseMove = (from: CampaignState["status"], to: CampaignState["status"] | undefined): void => {
  if (to === undefined || to === from || MOVES[from].includes(to)) return;
  const cure = from === "draft" && to === "active" ? ": launch it over the platform API" : "";
  throw conflict("invalid_transition", `a campaign does not go from ${from} to ${to} this way${cure}`, {
    path: "/status",
  });
};

/** A launch needs a last day that is not over. Throws RefusalError: invalid `ends_in_past`. */
export const refuseEnded = (
  endsOn: string | null | undefined,
  now: UnixMs,
  { path, cure }: { readonly path: string; readonly cure: string },
): void => {
  if (endsOn != null && endsOn < dayOf(now))
    throw invalid(path, "ends_in_past", `the campaign ended on ${endsOn}: ${cure}`);
};

/**
 * Throws RefusalError: invalid `foreign_destination` for a page outside of the hosts that the pixel
 * of the client works on.
 */
export const refuseForeignPages = async ({ tx, scope }: Work, clientId: number, pages: Pages): Promise<void> => {
  const config = await readPixelConfig(tx, clientId, scope.clients);
  refuseOutside(config?.allowed_domains ?? [], pages);
};

/** The same for hosts that are known; `place` is that of the campaign in the input. */
export const refuseOutside = (domains: readonly string[], pages: Pages, place = ""): void => {
  const foreign = (["destination_url", "fallback_url"] as const).filter((name) => {
    const page = pages[name];
    return page != null && !isAllowed(page, domains);
  });
  refuseAll(
    foreign.map(
      (name): Refusal => ({
        ...{ kind: "invalid", code: "foreign_destination", path: `${place}/${name}` },
        message: "its host is none of the client's: add it to the allowed domains of the pixel",
      }),
    ),
  );
};

/** Partners that patterns name. */
export const partnersIn = (patterns: readonly Pattern[] = []): readonly NamedPartner[] =>
  patterns.flatMap(({ partner_id }, n) =>
    partner_id === undefined ? [] : { id: partner_id, path: `/patterns/${n}/partner_id` },
  );

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
