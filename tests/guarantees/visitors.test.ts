// The hosts of pixels and of tracking links are killed and run without the log: every event
// answered as stored is in the log afterwards, once (laws C5 and C6).
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { letterTopics } from "../../edges/dead-letters.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import { letterHeaders } from "../../stream/dead-letters.ts";
import { until } from "../support/e2e-product.ts";
import { type JoinedProduct, joinProduct } from "../support/joined-product.ts";

const HOSTS = ["pixel", "links"] as const;
type HostName = (typeof HOSTS)[number];
const FROZEN_MS = 60_000;
const BROWSER = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0.0.0 Safari/537.36";

let product: JoinedProduct;
let client: number;
beforeAll(async () => {
  product = await joinProduct("visitors");
  // A keeper would send letters again while they are counted.
  await product.without("keeper");
  client = product.client("casa-verde").id;
});
afterAll(() => product?.clear());
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const urlOf = (name: HostName): string => product.stack.run.apps[name]!.url;

/**
 * Statuses by the number of the visitor. 0 means that no answer came, so the event may be stored or
 * not.
 */
interface Answers {
  readonly posts: Map<string, number>;
  readonly images: Map<string, number>;
  readonly visits: Map<string, number>;
}
const statusOf = async (url: string, init: RequestInit = {}): Promise<number> => {
  try {
    const headers = { "user-agent": BROWSER, connection: "close", ...init.headers };
    const response = await fetch(url, { ...init, headers, redirect: "manual", signal: AbortSignal.timeout(20_000) });
    await response.arrayBuffer();
    return response.status;
  } catch {
    return 0;
  }
};

/**
 * Requests in turn: an event by POST, one by the image, a visit of a link. No visitor sends twice.
 */
const visitors = (name: string, answers: Answers) => {
  let isStopping = false;
  const going = (async () => {
    for (let n = 0; !isStopping; n += 1) {
      const id = `${name}-${n}`;
      const event = { t: "page_view", ts: Date.now(), event_id: `post-${id}`, url: "https://shop.example/" };
      const body = JSON.stringify({ cid: client, did: `visitor-${id}`, sid: `session-${id}`, events: [event] });
      answers.posts.set(`post-${id}`, await statusOf(`${urlOf("pixel")}/e`, { method: "POST", body }));
      const { t, url } = event;
      const image = { t, url, cid: String(client), did: `visitor-${id}`, event_id: `image-${id}` };
      const query = new URLSearchParams(image);
      answers.images.set(`image-${id}`, await statusOf(`${urlOf("pixel")}/e?${query}`));
      answers.visits.set(id, await statusOf(`${urlOf("links")}/c/${product.link("verde-jardin").code}?visitor=${id}`));
      await pause(50);
    }
  })();
  return {
    stop: () => {
      isStopping = true;
      return going;
    },
  };
};

const waitingAt = async (name: HostName): Promise<number> => {
  const { ops_url: opsUrl } = product.stack.run.apps[name] as unknown as { readonly ops_url: string };
  const text = await (await fetch(`${opsUrl}/metrics`)).text();
  return Number(/^tributary_spool_events(?:\{[^}]*\})? (\d+)/m.exec(text)?.[1]);
};

/** The ids of events by kind of request; an id counts once, however often the log has it. */
const idsIn = (events: readonly { readonly id: string; readonly data: EventReceived }[]) => {
  const ids = new Map<string, Set<string>>();
  for (const { id, data } of events) {
    const visitor = /[?&]visitor=([\w-]+)/.exec(data.url ?? "")?.[1];
    const of = data.source === "link" ? visitor : data.sender_event_id;
    if (of !== null && of !== undefined) ids.set(of, (ids.get(of) ?? new Set()).add(id));
  }
  return ids;
};

test("a log that stands still for a minute, and both hosts killed in it: every 204, image and 302 is " +
  "one event, or the letter of one", async () => {
  const answers: Answers = { posts: new Map(), images: new Map(), visits: new Map() };
  const going = ["a", "b", "c"].map((name) => visitors(name, answers));
  await until("visitors are answered", 30_000, () => expect(answers.visits.size).toBeGreaterThan(20));
  const kafka = product.stack.pid("kafka")!;
  product.stack.kill("kafka", "SIGSTOP");
  try {
    const frozenAt = performance.now();
    await until("Kafka stands still", 30_000, () =>
      expect(readFileSync(`/proc/${kafka}/stat`, "utf8").split(") ")[1]![0]).toBe("T"),
    );
    for (const name of HOSTS) {
      await until(`events wait at ${name}`, 30_000, async () => expect(await waitingAt(name)).toBeGreaterThan(20));
      const { was, is } = await product.replaced(name, 60_000);
      expect(is).not.toBe(was);
    }
    await pause(Math.max(0, FROZEN_MS - (performance.now() - frozenAt)));
  } finally {
    product.stack.kill("kafka", "SIGCONT");
  }
  // Visitors keep sending meanwhile.
  for (const name of HOSTS)
    await until(`nothing waits at ${name}`, 60_000, async () => expect(await waitingAt(name)).toBe(0));
  for (const { stop } of going) await stop();
  for (const name of HOSTS)
    await until(`nothing waits at ${name}`, 60_000, async () => expect(await waitingAt(name)).toBe(0));

  const records = await until("the log can be read", 60_000, () => product.events<EventReceived>("events.raw"));
  const stored = idsIn(records.filter(({ data }) => data.client_id === client));
  const missing: string[] = [];
  const kinds = [
    [answers.posts, 204],
    [answers.images, 200],
    [answers.visits, 302],
  ] as const;
  for (const [of, status] of kinds) {
    const answered = [...of].filter(([, said]) => said === status).map(([id]) => id);
    expect(answered.length).toBeGreaterThan(50);
    expect(answered.filter((id) => (stored.get(id)?.size ?? 0) > 1)).toEqual([]);
    missing.push(...answered.filter((id) => !stored.has(id)));
    // Both hosts died meanwhile; an event without an answer is stored once or not at all.
    const unanswered = [...of].filter(([, said]) => said !== status);
    expect(unanswered.length).toBeGreaterThan(0);
    expect(unanswered.filter(([id]) => (stored.get(id)?.size ?? 0) > 1)).toEqual([]);
    expect([...new Set(unanswered.map(([, said]) => said))].filter((said) => said !== 0 && said !== 503)).toEqual([]);
  }
  // A pixel host that has just started keeps events that come before it knows the clients: one
  // letter each.
  const letters = (await product.letters(letterTopics.pixel)).filter(
    ({ headers }) => headers[letterHeaders.code] === "not_ready",
  );
  expect(missing.filter((id) => answers.visits.has(id))).toEqual([]);
  expect(new Set(letters.map(({ value }) => value?.toString("latin1"))).size).toBe(missing.length);
  const all = kinds.flatMap(([of]) => [...of.keys()]);
  expect([...stored.keys()].filter((id) => !all.includes(id))).toEqual([]);
  console.log(`${all.length} answers, ${stored.size} events, ${records.length} records, ${missing.length} letters`);
}, 240_000);
