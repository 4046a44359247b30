// Rules for fields of a campaign beyond their format: pages on the client's hosts, patterns of the
// client's partners, and status changes.
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
/** The fields in the form of a change of reference data. */
export const recordOf = ({ patterns, ...fields }: Partial<CampaignFields>) => ({
  ...fields,
  ...(patterns !== undefined && { patterns: [...patterns] }),
});

type Pages = Partial<Pick<CampaignFields, "destination_url" | "fallback_url">>;

/** Allowed status changes. Only a launch starts a draft, and an ended campaign stays ended. */
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
 * Throws RefusalError: invalid `foreign_destination` for a page that is not on the hosts of the
 * client's pixel.
 */
export const refuseForeignPages = async ({ tx, scope }: Work, clientId: number, pages: Pages): Promise<void> => {
  const config = await readPixelConfig(tx, clientId, scope.clients);
  refuseOutside(config?.allowed_domains ?? [], pages);
};

/** Does the same check for these hosts; `place` is the campaign's place in the input. */
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

/** The partners that patterns name. */
export const partnersIn = (patterns: readonly Pattern[] = []): readonly NamedPartner[] =>
  patterns.flatMap(({ partner_id }, n) =>
    partner_id === undefined ? [] : { id: partner_id, path: `/patterns/${n}/partner_id` },
  );

/** Warnings about settings that are saved although they may be a mistake. */
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
