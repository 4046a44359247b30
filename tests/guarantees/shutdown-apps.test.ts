// Real processes are stopped under load: they exit with 0 in time, everything under way is answered
// and committed, and a hanging log causes no false answer.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { randomFrom } from "../../infra/runtime/random.ts";
import { expectLaws, repeatedIn } from "../support/e2e-laws.ts";
import { eventsOf, newSeed, openJournal, post, type SentEvent, startLoad } from "../support/e2e-load.ts";
import { type Product, until } from "../support/e2e-product.ts";
import { joinProduct } from "../support/joined-product.ts";

let product: Product;
let client: number;
let tokens: readonly string[];
beforeAll(async () => {
  product = await joinProduct("shutdown");
  client = product.client("aurora-music").id;
  tokens = await product.tokens(client, 12);
});
afterAll(() => product?.clear());

/** docs/design/laws.md L4. */
const STOP_MS = 20_000;

/** Sends SIGTERM. Resolves with the milliseconds until the process has exited with 0. */
const stopped = async (name: string): Promise<number> => {
  const from = product.said().length;
  const began = performance.now();
  const { was, is } = await product.replaced(name, 60_000, "SIGTERM");
  expect(is).not.toBe(was);
  const ended = product
    .said()
    .slice(from)
    .find((text) => text.startsWith(`${name} exited`) || text.startsWith(`${name} was ended`));
  expect(ended).toMatch(new RegExp(`^${name} exited with code 0;`));
  const ms = performance.now() - began;
  // Measured until its successor is ready, which is longer than the bounded time.
  expect(ms).toBeLessThan(STOP_MS);
  return ms;
};

test("workers stopped under load commit what they have processed: nothing is lost, and nothing is " +
  "even produced twice", async () => {
  const random = randomFrom(newSeed("SIGTERM of workers"));
  const journal = openJournal(join(product.stack.home, "workers.journal"));
  const next = eventsOf(random, "workers", client);
  const load = startLoad({ url: product.ingestUrl, tokens, next, random, journal, batch: 40, pauseMs: 50 });
  const times: string[] = [];
  for (const name of ["worker-chain", "worker-money", "worker-chain"])
    times.push(`${name} ${Math.round(await stopped(name))} ms`);
  await load.stop();
  await product.quiet(60_000);
  const held = await expectLaws(product, "workers", journal, load.sent);
  console.log(`from SIGTERM to the successor: ${times.join(", ")}; ${held.events} events, ${held.orders} orders`);
  expect(Object.keys(load.answers())).toEqual(["200"]);
  for (const topic of ["events.attributed", "claims", "conversions", "ledger.entries"])
    expect({ topic, repeated: await repeatedIn(product, topic, client) }).toEqual({ topic, repeated: 0 });
}, 120_000);

test("an edge stopped under load answers what is under way, and what it has acknowledged is there", async () => {
  const random = randomFrom(newSeed("SIGTERM of the edge"));
  const journal = openJournal(join(product.stack.home, "edge.journal"));
  const next = eventsOf(random, "edge", client);
  const sent = new Map<string, SentEvent>();
  const before = await lengthOf("events.raw");
  let answered = 0;
  const requests = tokens.slice(0, 4).map(async (token, n) => {
    const events = next(3_000);
    for (const event of events) sent.set(event.event_id, event);
    journal.intend(`${n}`, events);
    const answer = await post(product.ingestUrl, token, events, STOP_MS);
    answered += 1;
    journal.end(`${n}`, answer.status === 200 ? "ok" : "unknown");
    return answer;
  });
  await until("some of them are in the log", 20_000, async () => {
    if ((await lengthOf("events.raw")) === before) throw new Error("not yet");
  });
  // Otherwise the test would prove nothing.
  expect(answered).toBeLessThan(requests.length);
  const ms = await stopped("ingest");
  for (const answer of await Promise.all(requests))
    expect(answer).toMatchObject({ status: 200, accepted: 3_000, rejected: 0 });
  await product.quiet(60_000);
  const held = await expectLaws(product, "edge", journal, sent);
  console.log(`from SIGTERM to the successor: ${Math.round(ms)} ms; ${held.events} events, ${held.orders} orders`);
}, 120_000);

const lengthOf = async (topic: string): Promise<number> =>
  (await product.admin.watermarks(topic)).reduce((sum, { low, high }) => sum + high - low, 0);

test("while Kafka stands still the edge answers from its own disk, and everything counts once when it " +
  "goes on", async () => {
  const random = randomFrom(newSeed("SIGSTOP of Kafka"));
  const journal = openJournal(join(product.stack.home, "frozen.journal"));
  const next = eventsOf(random, "frozen", client);
  const sent = new Map<string, SentEvent>();
  let op = 0;
  const send = async (events: readonly SentEvent[]) => {
    op += 1;
    for (const event of events) sent.set(event.event_id, event);
    journal.intend(`${op}`, events);
    const answer = await post(product.ingestUrl, tokens[op % tokens.length]!, events);
    journal.end(`${op}`, answer.status === 200 ? "ok" : "unknown");
    return answer;
  };
  expect((await send(next(100))).status).toBe(200);

  const kafka = product.stack.pid("kafka")!;
  product.stack.kill("kafka", "SIGSTOP");
  try {
    await until("Kafka stands still", 30_000, () =>
      expect(readFileSync(`/proc/${kafka}/stat`, "utf8").split(") ")[1]![0]).toBe("T"),
    );
    for (let n = 0; n < 4; n += 1) expect(await send(next(100))).toMatchObject({ status: 200, accepted: 100 });
    expect(await failover()).toMatchObject({ active: true, spooled_events: 400 });
  } finally {
    product.stack.kill("kafka", "SIGCONT");
  }
  await until("the disk of the edge is drained", 60_000, async () =>
    expect(await failover()).toMatchObject({ active: false }),
  );
  expect(product.stack.pid("kafka")).toBe(kafka);
  await product.quiet(60_000);
  const held = await expectLaws(product, "frozen", journal, sent);
  console.log(`${held.events} events stored, ${held.duplicates} of them twice in the log`);
  expect(held.unknown).toBe(0);
}, 120_000);

const failover = async (): Promise<unknown> =>
  ((await (await fetch(`${product.ingestUrl}/health`)).json()) as { failover: unknown }).failover;
