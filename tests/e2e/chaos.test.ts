// `tributary chaos` on an installation that others use: at its end, and after a Ctrl-C in the
// middle, everything is as before.
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Product, until } from "../support/e2e-product.ts";
import { shopOf } from "../support/e2e-shop.ts";
import { joinProduct } from "../support/joined-product.ts";

const OPEN = "('waiting', 'retrying', 'parked')";
let product: Product;
let demo: string;

/** What the demo shops sold and owe, which letters are open, and which tokens are valid. */
const picture = async () => ({
  money: await product.rows(`select client_id, count(*)::int as entries, sum(amount_minor)::text as amount
    from ledger_entries where client_id in (${demo}) group by 1 order by 1`),
  sales: await product.rows(`select client_id, count(*)::int as sales from product_sales
    where client_id in (${demo}) group by 1 order by 1`),
  events: await product.clickhouse(`select client_id, count() as events from events final
    where client_id in (${demo}) group by 1 order by 1`),
  letters: await product.rows(`select letter_id from dead_letters where state in ${OPEN}`),
  senders: await product.rows("select token_id from tokens where kind = 'ingest' and revoked_at is null order by 1"),
  clients: await product.rows(`select client_id from (select distinct on (client_id) client_id, status from clients
    order by client_id, version desc) newest where status <> 'archived' order by 1`),
  health: ((await (await fetch(`${product.ingestUrl}/health`)).json()) as { status: string }).status,
});

let before: Awaited<ReturnType<typeof picture>>;
/** Of other files. */
let former: { readonly discarded: number; readonly archived: number };
beforeAll(async () => {
  product = await joinProduct("chaos");
  demo = (product.stack.run.demo as { clients: { id: number }[] }).clients.map(({ id }) => id).join(", ");
  const shop = shopOf(product, "casa-verde");
  await shop.send(Array.from({ length: 8 }, (_, n) => shop.purchase(`before-${n}`, "VERDE10")));
  await product.quiet(60_000);
  former = { discarded: await discarded(), archived: await archived() };
  before = await until("the sales are paid", 60_000, async () => {
    const found = await picture();
    const { money, sales, events } = found;
    expect([money[0]?.entries, sales[0]?.sales, events[0]?.events, found.health]).toEqual([8, 8, "8", "ok"]);
    return found;
  });
});
afterAll(async () => {
  await product.tributary("dlq", "discard", "--code", "not_framed", "--reason", "garbage of a test", "--yes").done;
  await product.clear();
});

const discarded = async (): Promise<number> => {
  const [row] = await product.rows<{ n: number }>(
    "select count(*)::int as n from dead_letters where state = 'discarded'",
  );
  return row!.n;
};
const archived = async (): Promise<number> => {
  const [row] = await product.rows<{ n: number }>(
    "select count(distinct client_id)::int as n from clients where status = 'archived'",
  );
  return row!.n;
};
const asBefore = (): Promise<void> =>
  until("everything is as before", 60_000, async () => expect(await picture()).toEqual(before));

test("what a run has sent, refused and broken is gone at its end, and nothing else has moved", async () => {
  const { code, stdout, stderr } = await product.tributary(
    ...["chaos", "--minutes", "0.1", "--seed", "7", "--faults", "garbage in the log"],
  ).done;
  expect(code, `${stdout}${stderr}`).toBe(0);
  expect(await discarded(), stderr).toBeGreaterThan(former.discarded);
  expect(await archived()).toBe(former.archived + 3);
  await asBefore();
}, 240_000);

test("a Ctrl-C while a broker is down heals it first, and leaves the letters of others alone", async () => {
  const producer = product.kafka.producer();
  await producer.send([{ topic: "events.raw", key: "another sender", value: Buffer.from("not of chaos") }]);
  await producer.close();
  before = await until("the garbage is a letter, which health reports", 60_000, async () => {
    const found = await picture();
    expect([found.letters.length, found.health]).toEqual([1, "degraded"]);
    return found;
  });
  const was = product.stack.pid("kafka");
  const { child, done, stderr } = product.tributary("chaos", "--minutes", "5", "--seed", "8", "--faults", "kill kafka");
  await until("the broker is killed", 90_000, () => {
    if (product.stack.pid("kafka") === was) throw new Error(stderr());
  });
  // A terminal sends Ctrl-C to both processes; the command only passes a SIGTERM on.
  child.kill("SIGTERM");
  const { code, stderr: said } = await done;
  expect(code, said).toBe(130);
  expect(await archived(), said).toBe(former.archived + 6);
  await asBefore();
}, 240_000);
