// Dashboards below the door: a client that the caller may not see is refused before any row of it
// is read.
import { expect, test } from "vitest";
import { RefusalError } from "../../modules/base/refusal.ts";
import { clientsAsked, type ScopedRead } from "../../modules/base/work.ts";
import { campaignDays, campaignStats } from "../../modules/figures/dashboards/campaign.ts";
import { fraudDashboard } from "../../modules/figures/dashboards/fraud.ts";

const OWN = 1;
const OTHER = 2;
/** A store that is reached has been asked for the rows of another client. */
const reached = new Proxy({}, { get: (_, name) => expect.fail(`a store was asked: ${String(name)}`) }) as never;
const stores = { clickhouse: reached, positions: { asOf: async () => Date.now() } } as never;
const read: ScopedRead = (work) => work(reached, { clients: [OWN], isAll: false });
const foreign = { client_id: OTHER, campaign_id: 7 };

test.each([
  ["the fraud dashboard", () => fraudDashboard(stores, read, foreign)],
  ["the figures of a campaign", () => campaignStats(stores, read, foreign)],
  ["the days of a campaign", () => campaignDays(stores, read, foreign)],
])("%s of another's client is missing, and no store is asked for its rows", async (_, ask) => {
  const error = await ask().catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(RefusalError);
  expect((error as RefusalError).refusals).toMatchObject([{ kind: "missing" }]);
});

test("without a client all of the caller's are asked for, and one of them alone when it is named", () => {
  expect(clientsAsked({ clients: [OWN, 3] }, undefined)).toEqual([OWN, 3]);
  expect(clientsAsked({ clients: [OWN, 3] }, 3)).toEqual([3]);
});
