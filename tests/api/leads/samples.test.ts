// Runs the samples of docs/push-leads.md.
import { beforeAll, expect, test } from "vitest";
import { until } from "../../../infra/runtime/timing/wait-until.ts";
import { apiSuite } from "../../support/api-suite.ts";
import { languages, runSample, samplesOf } from "../../support/page-samples.ts";
import { pusher } from "../../support/push.ts";

const { demo, ask, running } = apiSuite();
const { all, runnable } = samplesOf("docs/push-leads.md");
const shop = demo.clients[1] as { readonly id: number; readonly hmac_secret: string };
const client = { id: shop.id, secret: shop.hmac_secret };
beforeAll(() =>
  until("the client is in force", 30_000, async () =>
    expect((await pusher(ask)(client, { client_lead_id: "samples" })).status).toBe(200),
  ),
);

test("the page shows one in each language", () => expect(all.map(({ language }) => language)).toEqual(languages));

test.each(runnable)("the sample in $language pushes a lead", async (sample) => {
  const env = { API_URL: running().url, CLIENT_ID: String(client.id), HMAC_SECRET: client.secret };
  const { stdout, stderr } = await runSample(sample, env);
  expect(stderr).toBe("");
  expect(JSON.parse(stdout)).toMatchObject({ lead_id: expect.stringMatching(/^led_/) });
});
