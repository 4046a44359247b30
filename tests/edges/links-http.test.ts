// Tracking links on real servers: every visitor who was redirected is in the log afterwards, once,
// whatever happens to the log and the host.
import { afterAll, beforeAll, expect, test } from "vitest";
import { clickIdKey, verify } from "../../domain/click-id.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import type { ReferenceChanges } from "../../modules/catalog/reference/entities.ts";
import { writeReference } from "../../modules/catalog/reference/writer.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import { addedToLog, pidOf, whileFrozen } from "../support/ingest.ts";
import { browser } from "../support/link-host.ts";
import { type LinkProcess, startLinks } from "../support/link-process.ts";
import { sharedStack } from "../support/shared-stack.ts";

const stack = sharedStack();
const keys = [clickIdKey(stack.env.TRIBUTARY_SECRET!, 1)];
const NAME = "links-test";
const VISITS = 40;
let links: LinkProcess;
beforeAll(async () => {
  links = await startLinks(stack, NAME);
});
afterAll(() => links?.end());

const visit = async (code: string, mark: string): Promise<{ readonly status: number; readonly to: URL }> => {
  const { status, headers } = await fetch(`${links.url}/c/${code}?mark=${mark}`, {
    redirect: "manual",
    headers: { "user-agent": browser },
  });
  return { status, to: new URL(headers.get("location") ?? "about:blank") };
};
/** The click ids of visitors who were redirected. */
const visits = async (count: number, mark: string): Promise<readonly string[]> => {
  const ids: string[] = [];
  for (let n = 0; n < count; n += 1) {
    const { status, to } = await visit("aurora-radio", mark);
    expect(status).toBe(302);
    ids.push(to.searchParams.get("svc_click_id")!);
  }
  return ids;
};
const drained = () =>
  until("nothing waits on the disk", 60_000, async () => {
    const waiting = await links.spooled();
    if (waiting !== 0) throw new Error(`${waiting} visits wait`);
  });
/** The records of these visits in the order of the log. */
const stored = async (mark: string, work: () => Promise<void>) =>
  (await addedToLog(stack, work)).filter(({ url }) => url?.includes(`mark=${mark}`));

/** Each visit is of another device, so the log may hold them in any order. */
const clicksIn = (found: readonly EventReceived[]) => found.map(({ click_id }) => click_id).sort();

test("a visit is in the log when its visitor is sent on, with the click id that it took along", async () => {
  let ids: readonly string[] = [];
  const found = await stored("plain", async () => {
    ids = await visits(3, "plain");
  });
  expect(clicksIn(found)).toEqual([...ids].sort());
  const { link_id } = stack.demo.links.find(({ code }: { code: string }) => code === "aurora-radio");
  expect(ids.map((id) => verify(id, keys)?.link_id)).toEqual([link_id, link_id, link_id]);
  expect(found[0]).toMatchObject({ source: "link", t: "click", batch_id: null });
});

test("a saved change of a campaign leads the next visitors elsewhere", async () => {
  const pool = openPool(stack.env.POSTGRES_URL!, { max: 1 });
  try {
    // A busy machine may not save a change in time; then nothing of it is saved.
    const save = (changes: ReferenceChanges) =>
      until("it is saved", 20_000, () => writeReference(pool, "test", changes));
    const { idOf } = await save({
      clients: [{ client_id: -1, slug: "link-shop", name: "Link Shop", fallback_url: "https://link-shop.example/all" }],
      partners: [{ partner_id: -1, name: "Radio", email: "radio@link-shop.example", client_ids: [-1] }],
      campaigns: [
        {
          campaign_id: -1,
          client_id: -1,
          name: "One",
          status: "active",
          destination_url: "https://link-shop.example/",
        },
      ],
      links: [{ link_id: -1, campaign_id: -1, partner_id: -1, code: "link-shop-radio" }],
    });
    const leadsTo = (page: string) =>
      until(`the link leads to ${page}`, 30_000, async () => {
        const { to } = await visit("link-shop-radio", "moved");
        if (`${to.origin}${to.pathname}` !== page) throw new Error(to.href);
      });
    await leadsTo("https://link-shop.example/");
    const campaign_id = idOf("campaigns", -1);
    await save({
      campaigns: [{ campaign_id, destination_url: "https://link-shop.example/new" }],
    });
    await leadsTo("https://link-shop.example/new");
    await save({ campaigns: [{ campaign_id, status: "paused" }] });
    await leadsTo("https://link-shop.example/all");
  } finally {
    await pool.end();
  }
});

test("while the log stands still visitors are sent on, and every visit is in the log afterwards, once", async () => {
  let ids: readonly string[] = [];
  const found = await stored("frozen", async () => {
    await whileFrozen(pidOf(stack, "kafka"), async () => {
      await visit("aurora-radio", "first");
      const began = performance.now();
      ids = await visits(VISITS, "frozen");
      // Only the first visitors waited for the log.
      expect((performance.now() - began) / VISITS).toBeLessThan(250);
      await until("visits wait on the disk", 30_000, async () => expect(await links.spooled()).toBeGreaterThan(0));
    });
    await drained();
  });
  expect(clicksIn(found)).toEqual([...ids].sort());
  expect(new Set(found.map(({ event_id }) => event_id)).size).toBe(VISITS);
}, 120_000);

test("a host that is killed while the log stands still brings its visits into the log at its next start", async () => {
  let ids: readonly string[] = [];
  const found = await stored("killed", async () => {
    const was = links.pid;
    await whileFrozen(pidOf(stack, "kafka"), async () => {
      ids = await visits(VISITS, "killed");
      await links.end("SIGKILL");
    });
    links = await startLinks(stack, NAME);
    expect(links.pid).not.toBe(was);
    await drained();
  });
  // A visit that was drained before the kill but not marked is sent again with the same id.
  expect([...new Set(clicksIn(found))]).toEqual([...ids].sort());
}, 120_000);
