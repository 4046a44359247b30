// The launch of a campaign: links, contracts, budgets and its new state, all of it or nothing.
import { dayOf } from "../../../../domain/calendar.ts";
import { Problem } from "../../../../infra/http/problem.ts";
import { readCampaign } from "../../../../modules/catalog/campaigns/campaign-reads.ts";
import { openClient } from "../../../../modules/catalog/clients/open-client.ts";
import { refuseApproved } from "../../../../modules/catalog/contracts/fixed-days.ts";
import { checkBudgets, checkOpen, setBudgets } from "../../campaigns/budgets.ts";
import { campaignToChange, checkPartners, partnersOfPatterns, warningsOf } from "../../campaigns/checks.ts";
import { followLaunch } from "../../campaigns/launched.ts";
import { linkChanges } from "../../campaigns/links.ts";
import { launchCampaign, readCampaign as shownContract } from "../../contract/campaigns/campaigns.ts";
import { fieldsOf } from "../../contract/contract.ts";
import { fault } from "../../request/accept.ts";
import { type Ask, type Route, route, type Work } from "../../route.ts";

type LaunchAsk = Ask<typeof launchCampaign>;

export const routes = (): readonly Route[] => [
  route(launchCampaign, (ask) => ask.write((work) => launched(work, ask))),
];

const launched = async (work: Work, { params, body, role, checkVersion }: LaunchAsk) => {
  const { tx, scope, change, audit } = work;
  const before = await campaignToChange(work, params.id);
  const { client_id } = before;
  checkVersion(before.version);
  if (!["draft", "paused"].includes(before.status))
    throw new Problem("conflict", `a campaign that is ${before.status} is not launched`, {
      code: "invalid_transition",
    });
  const { name, currency } = await openClient(work, client_id, ["name", "currency"]);
  const contracts = await contractsOf(work, client_id, body.commissions);
  await checkPartners(work, client_id, partnersOfPatterns(body.patterns));
  const wanted = { campaign_id: params.id, client_id, pointer: "/partners", isWhole: false };
  const links = await linkChanges(work, { ...wanted, partners: body.partners });
  if (before.ends_on !== null && before.ends_on < dayOf(Date.now()))
    throw fault("", "ends_in_past", `the campaign ended on ${before.ends_on}: give it another ends_on first`);
  const budgets = await setBudgets(work, await checkBudgets(work, { client_id, currency }, body.budgets));
  const after = { status: "active" as const, patterns: body.patterns ?? before.patterns };
  const saved = await change(
    { campaigns: [{ campaign_id: params.id, ...after }], links, contracts } as Parameters<typeof change>[0],
    {},
    { placeOf: (entity, n) => (entity === "contracts" ? `/commissions/${n}` : "") },
  );
  const entity = `campaign:${params.id}`;
  const made = { partners: body.partners, commissions: saved.contractIds, budgets };
  await audit({ action: "campaign.launched", client_id, entity, before, after: { ...after, ...made } });
  const campaign = (await readCampaign(tx, params.id, scope.clients, fieldsOf(shownContract, role)))!;
  const on = campaign.links.filter((link: { status: string }) => link.status === "active");
  const { name: campaignName, starts_on, ends_on } = before;
  const days = { starts_on, ends_on };
  const launch = { campaign_id: params.id, version: before.version + 1, campaign: campaignName, ...days };
  await followLaunch(work, { client_id, name, change_id: saved.change_id }, [
    { ...launch, partner_ids: body.partners, links: on },
  ]);
  const warnings = warningsOf(after.patterns as typeof before.patterns, on.length);
  return { body: { campaign, links: on, commissions: saved.contractIds, budgets, warnings } };
};

/**
 * Throws Problem 400 for partners of others, 409 for a first day in a locked month and for days of
 * an approved plan.
 */
const contractsOf = async (work: Work, client_id: number, commissions: LaunchAsk["body"]["commissions"]) => {
  const places = commissions.map(({ partner_id }, n) => [partner_id, `/commissions/${n}/partner_id`] as const);
  await checkPartners(work, client_id, places);
  for (const [n, { effective_from: from, effective_to: to, ...contract }] of commissions.entries()) {
    const place = `/commissions/${n}/effective_from`;
    checkOpen(from, place);
    await refuseApproved(work, { ...contract, client_id, effective_from: from }, { from, to }, place);
  }
  return commissions.map((commission) => ({ ...commission, client_id }));
};
