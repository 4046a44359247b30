// A pushed lead end to end, laws I1 and C1: processes die between each two durable effects, and
// there is still one lead, one event and one credit. The order: (1) lead, keys, sealed part, event
// and announcement in one commit; (2) the answer; (3) the log; (4) the mark that the log has it.
import { afterAll, beforeAll, expect, test } from "vitest";
import { clickIdKey, mint } from "../../domain/click-id.ts";
import { sentEventId } from "../../domain/ids.ts";
import { type ArmedApp, armedApp } from "../support/armed-app.ts";
import { asker } from "../support/ask.ts";
import { until } from "../support/e2e-product.ts";
import { type JoinedProduct, joinProduct } from "../support/joined-product.ts";
import { pusher, type Signer } from "../support/push.ts";

let product: JoinedProduct;
let shop: Signer;
let clickId: string;
const started: ArmedApp[] = [];
beforeAll(async () => {
  product = await joinProduct("leads");
  for (const app of ["keeper", "api"]) await product.without(app);
  const { clients } = product.stack.run.demo as { clients: { id: number; hmac_secret: string }[] };
  const { id } = product.client("casa-verde");
  shop = { id, secret: clients.find((client) => client.id === id)!.hmac_secret };
  const { link_id } = product.link("verde-jardin");
  const key = clickIdKey(product.stack.env.TRIBUTARY_SECRET!, 1);
  clickId = mint(link_id, Date.now() - 3_600_000, new Uint8Array(8), key);
});
afterAll(async () => {
  await Promise.all(started.map(({ kill }) => kill()));
  await product?.clear();
});

const run = async (app: "api" | "keeper", failpoints = ""): Promise<ArmedApp> => {
  const one = await armedApp(product, app, failpoints, { OIDC_ISSUER: "http://127.0.0.1:9" });
  started.push(one);
  await one.ready();
  return one;
};
const pushAt = ({ url }: ArmedApp, lead: object) => pusher(asker(() => url))(shop, lead);
const ana = () => ({ client_lead_id: "L-1", email: "ana@leads.example", product: "loan", svc_click_id: clickId });
const count = async (statement: string): Promise<number> => (await product.rows(statement))[0].count;
const storedLeads = () => count(`select count(*)::int as count from leads where client_id = ${shop.id}`);
const waitingRows = () => count("select count(*)::int as count from outbox where sent_at is null");
const inLog = async (eventId: string): Promise<number> =>
  (await product.events("events.raw")).filter(({ id }) => id === eventId).length;
const credits = () =>
  product.rows<{ lead: string; status: string }>(`
    select l.client_lead_id as lead, c.status from conversions c
    join leads l using (client_id, event_id) where client_id = ${shop.id} order by 1`);

test("a lead whose processes die at each step is one lead, one event and one credit", async () => {
  // Earlier changes are sent first, so that the next row of the outbox is the lead's.
  const first = await run("keeper");
  await until("the outbox is sent", 60_000, async () => expect(await waitingRows()).toBe(0));
  await first.kill();

  const beforeCommit = await run("api", "lead-written=1");
  await expect(pushAt(beforeCommit, ana())).rejects.toThrow();
  expect([await beforeCommit.died, beforeCommit.hits()]).toEqual(["SIGKILL", expect.stringContaining("killed")]);
  expect([await storedLeads(), await waitingRows()]).toEqual([0, 0]);

  const beforeAnswer = await run("api", "lead-stored=1");
  await expect(pushAt(beforeAnswer, ana())).rejects.toThrow();
  expect([await beforeAnswer.died, beforeAnswer.hits()]).toEqual(["SIGKILL", expect.stringContaining("killed")]);
  expect([await storedLeads(), await waitingRows()]).toEqual([1, 2]);

  const api = await run("api");
  const { status, body } = await pushAt(api, ana());
  expect([status, body]).toEqual([200, { status: "duplicate", lead_id: expect.any(String), attributed: true }]);
  const eventId = sentEventId(shop.id, body.lead_id);

  const beforeMark = await run("keeper", "outbox-produced=1");
  expect([await beforeMark.died, beforeMark.hits()]).toEqual(["SIGKILL", expect.stringContaining("killed")]);
  expect([await inLog(eventId), await waitingRows()]).toEqual([1, 3]);

  await run("keeper");
  await until("the outbox is sent", 60_000, async () => expect(await waitingRows()).toBe(0));
  expect(await inLog(eventId)).toBe(2);
  await until("the lead is credited", 60_000, async () =>
    expect(await credits()).toEqual([{ lead: "L-1", status: "credited" }]),
  );
  const rows = await product.clickhouse<{ t: string; source: string; credit_status: string }>(
    `select t, source, credit_status from events final where client_id = ${shop.id} and event_id = '${eventId}'`,
  );
  expect(rows).toEqual([{ t: "lead_submit", source: "lead", credit_status: "attributed" }]);

  // Another lead id of the same person is another lead. The browser's copy has no lead id and
  // belongs to the first one.
  expect((await pushAt(api, { ...ana(), client_lead_id: "L-2" })).body.status).toBe("created");
  const copy = {
    ...{ event_id: "copy", t: "lead_submit", ts: Date.now(), cid: shop.id, did: "browser", svc_click_id: clickId },
    props: { email: "ANA@leads.example", product: "loan" },
  };
  const { token } = product.client("casa-verde");
  const answer = await asker(() => product.ingestUrl)("/ingest/batch", {
    method: "POST",
    token,
    body: { events: [copy] },
  });
  expect(answer.body).toMatchObject({ accepted: 1 });
  await until("the copy is merged", 60_000, async () => {
    const [merged] = await product.clickhouse<{ merged_into: string | null }>(
      `select merged_into from events final where client_id = ${shop.id}
        and event_id = '${sentEventId(shop.id, "copy")}'`,
    );
    expect(merged?.merged_into).not.toBeNull();
    expect(merged).toBeDefined();
  });
  await until("both leads are credited", 60_000, async () =>
    expect(await credits()).toEqual([
      { lead: "L-1", status: "credited" },
      { lead: "L-2", status: "credited" },
    ]),
  );
  expect(
    await count(
      `select count(*)::int as count from conversions where client_id = ${shop.id} and event_type = 'lead_submit'`,
    ),
  ).toBe(2);
  const words = ["ana@leads", "ANA@leads"];
  for (const topic of ["events.raw", "domain.changes", "claims"]) {
    const text = (await product.read(topic)).map(({ value }) => value?.toString("latin1")).join();
    expect([topic, words.filter((word) => text.includes(word))]).toEqual([topic, []]);
  }
}, 240_000);
