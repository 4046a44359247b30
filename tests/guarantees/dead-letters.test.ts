// Dead letters end to end, law C4: garbage and refused rows become letters that health counts. Once
// the fault is fixed they are stored once, also if the keeper is killed between sending and
// marking.
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { randomFrom } from "../../infra/runtime/random.ts";
import { apps } from "../../modules/running/installation/product.ts";
import { type ArmedApp, armedApp } from "../support/armed-app.ts";
import { command } from "../support/command.ts";
import { expectLaws } from "../support/e2e-laws.ts";
import { eventsOf, newSeed, openJournal, post, type SentEvent } from "../support/e2e-load.ts";
import { type Product, startProduct, until } from "../support/e2e-product.ts";
import { paymentIntent, stripeEvent, stripeHeader } from "../support/stripe-notices.ts";

let product: Product;
const keepers: ArmedApp[] = [];
beforeAll(async () => {
  product = await startProduct(apps.filter(({ name }) => ["ingest", "worker-chain", "worker-money"].includes(name)));
});
afterAll(async () => {
  await Promise.all(keepers.map(({ kill }) => kill()));
  await product?.clear();
});

const keeper = async (failpoints: string): Promise<ArmedApp> => {
  const one = await armedApp(product, "keeper", failpoints);
  keepers.push(one);
  return one;
};
const dlq = async <T = any>(...args: readonly string[]): Promise<T> => {
  const { code, stdout, stderr } = await product.tributary("dlq", ...args, "--json").done;
  expect({ code, stderr: code === 0 ? "" : stderr }).toEqual({ code: 0, stderr: "" });
  return JSON.parse(stdout) as T;
};
const health = async () =>
  (await (await fetch(`${product.ingestUrl}/health`)).json()) as {
    status: string;
    dlq_depth: Record<string, number>;
    dlq_depth_stale: boolean;
  };
const depthIs = (s2s: number) =>
  until(`health counts ${s2s} letters`, 60_000, async () =>
    expect(await health()).toMatchObject({
      dlq_depth: { clicks: 0, pixel: 0, s2s },
      dlq_depth_stale: false,
      status: s2s > 0 ? "degraded" : "ok",
    }),
  );
const states = async (): Promise<readonly string[]> =>
  (
    await product.rows(
      "select stage, code, state, count(*)::int as count from dead_letters group by 1, 2, 3 order by 1, 2, 3",
    )
  ).map(({ stage, code, state, count }) => `${stage} ${code} ${state} ${count}`);
const statesAre = (...expected: readonly string[]) =>
  until("the letters are as they must be", 60_000, async () => expect(await states()).toEqual(expected));

test("garbage and refused rows are counted, and what is mended comes through once, over a keeper that " +
  "is killed while it sends", async () => {
  const random = randomFrom(newSeed("dead letters"));
  const { id, token } = product.client("aurora-music");
  const next = eventsOf(random, "dlq", id);
  const journal = openJournal(join(product.stack.home, "dlq.journal"));
  const sent = new Map<string, SentEvent>();
  const events = [
    ...next(396),
    ...[1, 2].map(
      (n): SentEvent => ({
        event_id: `dlq-refused-${n}`,
        t: "purchase",
        ts: Date.now() - 60_000,
        cid: id,
        did: `dlq-device-${n}`,
        props: { order_id: `dlq-refused-${n}`, product_id: "cd", quantity: 1, revenue: "12.00", currency: "USD" },
      }),
    ),
  ];
  for (const event of events) sent.set(event.event_id, event);

  // A wrong constraint in each of two stores: one store refuses an event, the other a record
  // without events.
  await product.rows("alter table product_sales add constraint mapping check (order_id <> 'dlq-refused-1')");
  await product.rows("alter table conversions add constraint mapping check (order_id <> 'dlq-refused-2')");
  const first = await keeper("dlq-produced=1");
  journal.intend("load", events);
  expect(await post(product.ingestUrl, token, events)).toMatchObject({ status: 200, accepted: events.length });
  journal.end("load", "ok");
  const producer = product.kafka.producer();
  await producer.send(
    [1, 2, 3, 4].map((n) => ({
      topic: "events.raw",
      key: `g${n % 2}`,
      value: n === 1 ? null : Buffer.from("garbage"),
    })),
  );
  await producer.close();
  await product.quiet(60_000);
  await depthIs(6);
  await statesAre(
    "conversions refused_by_store waiting 1",
    "enrich not_framed waiting 4",
    "product-sales refused_by_store waiting 1",
  );

  // On a busy machine a minute passes quickly, and the keeper that is to die with the fixed letters
  // would die with the garbage.
  await product.rows("update dead_letters set next_attempt_at = now() + interval '1 hour'");

  // Each letter shows its content: the event as JSON with its client, or the bytes if they cannot
  // be read.
  const { data } = await dlq<{ data: { letter_id: string; stage: string; client_id: number | null }[] }>("list");
  expect(data).toHaveLength(6);
  const [refused] = data.filter(({ stage }) => stage === "product-sales");
  expect(await dlq("show", refused!.letter_id)).toMatchObject({
    client_id: id,
    message: expect.stringContaining("mapping"),
    record: { data: { event: { order_id: "dlq-refused-1", sender_event_id: "dlq-refused-1" } } },
    failures: [{ code: "refused_by_store" }],
  });
  const { stdout: lines } = await product.tributary("dlq", "export", "--code", "not_framed").done;
  expect(
    lines
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line).hex)
      .sort(),
  ).toEqual([...Array.from({ length: 3 }, () => Buffer.from("garbage").toString("hex")), null]);

  // The fault is fixed; the command is first run without --yes. The keeper dies after the letters
  // are sent and before they are marked.
  await product.rows("alter table product_sales drop constraint mapping");
  await product.rows("alter table conversions drop constraint mapping");
  const filter = ["--code", "refused_by_store"] as const;
  expect(await dlq("retry", ...filter)).toMatchObject({ letters: 2, done: false });
  expect((await states()).filter((line) => line.includes("waiting"))).toHaveLength(3);
  expect(await dlq("retry", ...filter, "--yes")).toMatchObject({ letters: 2, done: true });
  expect(await first.died).toBe("SIGKILL");
  expect(first.hits()).toContain("dlq-produced 1 killed");
  await product.quiet(60_000);
  // Both rows are stored already, and the letters are still open because no process has confirmed
  // them.
  expect(await states()).toEqual([
    "conversions refused_by_store retrying 1",
    "enrich not_framed waiting 4",
    "product-sales refused_by_store retrying 1",
  ]);

  await keeper("");
  // Its successor takes them over when the lease has ended, and sends them a second time.
  await product.rows("update dead_letters set lease_until = now() where state = 'retrying'");
  await statesAre(
    "conversions refused_by_store reprocessed 1",
    "enrich not_framed waiting 4",
    "product-sales refused_by_store reprocessed 1",
  );
  await product.quiet(60_000);
  const counted = await product.rows(`select
    (select count(*)::int from product_sales where order_id like 'dlq-refused-%') as sales,
    (select count(*)::int from conversions where order_id like 'dlq-refused-%') as conversions,
    (select count(*)::int from ledger_entries join conversions using (client_id, conversion_id)
      where order_id like 'dlq-refused-%') as entries`);
  expect(counted).toEqual([{ sales: 2, conversions: 2, entries: 2 }]);
  const again = (await product.read("events.raw")).filter(({ headers }) => headers["tributary-letter"] !== undefined);
  expect(
    again.map(({ event }) => event().data.sender_event_id),
    "sent by both keepers, under its own id",
  ).toEqual(["dlq-refused-1", "dlq-refused-1"]);

  // Retried garbage fails again: the same four letters, with one more attempt.
  await dlq("retry", "--code", "not_framed", "--yes");
  await until("every attempt has failed", 60_000, async () =>
    expect(
      await product.rows("select attempts from dead_letters where code = 'not_framed' and state = 'waiting'"),
    ).toEqual(Array.from({ length: 4 }, () => ({ attempts: 1 }))),
  );
  await depthIs(4);
  const refusedUsage = await product.tributary("dlq", "discard", "--code", "not_framed", "--yes").done;
  expect(refusedUsage.code).toBe(2);
  expect(await dlq("discard", "--code", "not_framed", "--reason", "garbage of a test", "--yes")).toMatchObject({
    letters: 4,
  });
  await depthIs(0);

  const operations = (await product.read("operations"))
    .map(({ event }) => event().data)
    .filter(({ kind }) => kind.startsWith("dead_letter"));
  expect(operations.map(({ kind, phase }) => `${kind} ${phase}`)).toEqual(
    ["dead_letter_retry", "dead_letter_retry", "dead_letter_discard"].flatMap((kind) => [
      `${kind} started`,
      `${kind} succeeded`,
    ]),
  );
  expect(operations.at(-1)).toMatchObject({ actor: expect.stringContaining("@cli"), reason: "garbage of a test" });

  // C4: every failure in the topic is in the index once, every letter has one state, and indexing
  // from the first record again changes nothing.
  const records = await product.read("s2s.dlq");
  const failures = new Set(
    records.map(
      ({ headers: h }) =>
        `${h["tributary-stage"]} ` +
        `${h["__connect.errors.topic"]}/${h["__connect.errors.partition"]}@${h["__connect.errors.offset"]}`,
    ),
  );
  const [index] = await product.rows(
    "select (select count(*)::int from dead_letters) as letters, (select count(*)::int from " +
      "dead_letter_failures) as failures",
  );
  expect(index).toEqual({ letters: 6, failures: failures.size });
  const held = await expectLaws(product, "dlq", journal, sent);
  console.log(
    `${held.events} events, ${held.orders} orders; ${records.length} records in the dead letters, ` +
      `${failures.size} failures, 6 letters`,
  );
}, 180_000);

test("a payload and a notice that were refused come back by themselves once their senders are corrected", async () => {
  const { id } = product.client("aurora-music");
  const secret = "whsec_of_a_shop_with_keys_of_its_own";
  const run = async (input: string, ...args: readonly string[]): Promise<string> => {
    const { code, stdout, stderr } = await command(product.stack.env, args, input);
    expect(code, stderr).toBe(0);
    return stdout + stderr;
  };
  const send = async (path: string, body: string, headers: Record<string, string> = {}): Promise<number> => {
    const given = { "content-type": "application/json", ...headers };
    return (await fetch(new URL(path, product.ingestUrl), { method: "POST", body, headers: given })).status;
  };
  const refused = (name: string, post: () => Promise<number>) =>
    until(`${name} is refused`, 30_000, async () => expect(await post()).toBe(400));

  await keeper("");
  const mapping = { event_name: "event", dedup_key: "id", order_id: "order", value: "total" };
  const settings = { client_id: id, slug: "corrected", name: "A network", kind: "postback_network", state: "active" };
  const made = await run(JSON.stringify({ ...settings, mapping }), "sources", "save", "-", "--yes");
  const source = /src_\d+/.exec(made)![0];
  const address = /\/postback\/\S+/.exec(await run("", "sources", "rotate", source))![0];
  const payload = JSON.stringify({ event: "purchase", id: "1", order: "corrected-1", total: { amount: "499.00" } });
  await refused("the payload", () => send(address, payload));
  const connect = ["processors", "save", "stripe", "--client", String(id)];
  const path = (await run(secret, ...connect)).split("\n")[0]!;
  const intent = paymentIntent({ id: "pi_corrected", metadata: { orderNumber: "corrected-2" } });
  const notice = stripeEvent("payment_intent.succeeded", intent);
  await refused("the notice", () => send(path, notice, { "stripe-signature": stripeHeader(notice, secret) }));
  await until("both are letters", 60_000, async () =>
    expect(
      await product.rows("select sender, code from dead_letters where state = 'waiting' order by sender desc"),
    ).toEqual([
      { sender: "stripe", code: "missing_metadata" },
      { sender: source, code: "bad_field" },
    ]),
  );
  // Their own retry time must not be what brings them back.
  await product.rows("update dead_letters set next_attempt_at = now() + interval '1 day' where state = 'waiting'");

  const corrected = { ...mapping, value: "total.amount" };
  await run(JSON.stringify({ id: source, mapping: corrected }), "sources", "save", "-", "--yes");
  await run(secret, ...connect, "--metadata", "order_id=orderNumber");
  await until("both came through", 60_000, async () =>
    expect(await product.rows("select distinct state from dead_letters where sender is not null")).toEqual([
      { state: "reprocessed" },
    ]),
  );
  await product.quiet(60_000);
  expect(
    await product.rows(
      "select order_id, value_minor::int from product_sales where order_id like 'corrected-%' order by 1",
    ),
  ).toEqual([
    { order_id: "corrected-1", value_minor: 49_900 },
    { order_id: "corrected-2", value_minor: 129_900 },
  ]);
}, 180_000);
