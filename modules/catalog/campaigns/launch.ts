// Launches a campaign: saves links, contracts, budgets and the new status in one transaction.
import { checkVersion, conflict } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { type BudgetInput, checkBudgets } from "../budgets/check.ts";
import { setBudgets } from "../budgets/save.ts";
import { openClient } from "../clients/open-client.ts";
import { namedPartners } from "../partners/named-partners.ts";
import { changeReference } from "../reference/change.ts";
import { partnersIn, refuseEnded } from "./campaign-fields.ts";
import { linksOf, type Pattern } from "./campaign-reads.ts";
import { followLaunch } from "./follow-launch.ts";
import { auditedAs, type Commission, contractsFor } from "./launch-contracts.ts";
import { linksFor } from "./links.ts";
import { entityOf, openCampaign } from "./open-campaign.ts";

export interface LaunchInput {
  readonly campaign_id: number;
  /** Partners that get a link; links of other partners stay. */
  readonly partners: readonly number[];
  /** Undefined: keeps the stored patterns. */
  readonly patterns?: readonly Pattern[] | undefined;
  readonly commissions: readonly Commission[];
  readonly budgets: readonly BudgetInput[];
  /** The version that the caller has seen; undefined: any. */
  readonly version: number | undefined;
}
/** Ids in the order of the input. */
export interface LaunchResult {
  readonly commissions: readonly number[];
  readonly budgets: readonly number[];
}

/**
 * Throws RefusalError: missing, `client_archived`, `campaign_archived`, `version_conflict`,
 * `invalid_transition`, invalid `ends_in_past`, the refusals of `contractsFor`, `linksFor` and
 * `checkBudgets`, and refusals of wrong terms.
 */
export const launchCampaign = async (work: Work, input: LaunchInput): Promise<LaunchResult> => {
  const { tx, now } = work;
  const { campaign_id, partners } = input;
  const before = await openCampaign(work, campaign_id);
  const { client_id, ends_on } = before;
  checkVersion(input.version, before.version);
  if (!["draft", "paused"].includes(before.status))
    throw conflict("invalid_transition", `a campaign that is ${before.status} is not launched`);
  const { name, currency } = await openClient(work, client_id, ["name", "currency"]);
  const contracts = await contractsFor(work, client_id, input.commissions);
  await namedPartners(work, client_id, partnersIn(input.patterns));
  const links = await linksFor(work, before, { partners, path: "/partners", isWhole: false });
  refuseEnded(ends_on, now, { path: "", cure: "give it another ends_on first" });
  const checked = await checkBudgets(work, { client_id, currency }, input.budgets, (n) => `/budgets/${n}`);

  const budgets = await setBudgets(work, checked);
  const after = { status: "active" as const, patterns: [...(input.patterns ?? before.patterns)] };
  const { change_id, contractIds: commissions } = await changeReference(
    work,
    {
      campaigns: [{ campaign_id, ...after }],
      links,
      contracts: contracts.map(({ terms }) => terms),
    },
    { placeOf: (entity, n) => (entity === "contracts" ? `/commissions/${n}` : "") },
  );
  const launch = { action: "campaign.launched", client_id, entity: entityOf(campaign_id), before };
  const made = { partners, commissions, budgets };
  await work.audit(...auditedAs(contracts, commissions), { ...launch, after: { ...after, ...made } });
  const used = (await linksOf(tx, campaign_id)).filter(({ status }) => status === "active");
  const { starts_on, version, name: campaign } = before;
  await followLaunch(work, { client_id, name, change_id }, [
    { campaign_id, version: version + 1, campaign, starts_on, ends_on, partner_ids: partners, links: used },
  ]);
  return { commissions, budgets };
};
