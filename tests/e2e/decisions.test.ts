// An operator and the nightly pass decide about orders on real servers, and the ledger follows.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { dayOf, startOfDay } from "../../domain/calendar.ts";
import { clickIdKey, mint } from "../../domain/click-id.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { writeReference } from "../../modules/reference/writer.ts";
import { type Product, startProduct, until } from "../support/e2e-product.ts";

const HOUR = 3_600_000;
let product: Product;
let shop: { readonly id: number; readonly token: string };
let links: readonly {
  readonly code: string;
  readonly link_id: number;
  readonly client_id: number;
  readonly partner_id: number;
}[];
const start = Date.now();

beforeAll(async () => {
  product = await startProduct();
  shop = product.client("casa-verde");
  links = (product.stack.run.demo as { links: typeof links }).links.filter(({ client_id }) => client_id === shop.id);
});
afterAll(() => product?.clear());

const clickId = (linkId: number, at: number, n: number): string =>
  mint(
    linkId,
    at,
    new Uint8Array([0, 0, 0, 0, 0, 0, n >> 8, n & 255]),
    clickIdKey(product.stack.env.TRIBUTARY_SECRET!, 1),
  );
const send = async (events: readonly object[]): Promise<void> => {
  const answer = await fetch(`${product.ingestUrl}/ingest/batch`, {
    method: "POST",
    headers: { authorization: `Bearer ${shop.token}`, "content-type": "application/json" },
    body: JSON.stringify({ events }),
  });
  expect([answer.status, await answer.json()]).toMatchObject([200, { accepted: events.length }]);
};
const purchase = (order: string, over: object = {}) => ({
  event_id: `purchase-${order}`,
  t: "purchase",
  ts: start,
  cid: shop.id,
  did: `device-${order}`,
  props: { order_id: order, product_id: "maceta", quantity: 1, revenue: "1000.00", currency: "MXN" },
  ...over,
});
interface Entry {
  readonly kind: string;
  readonly partner_id: number;
  readonly amount: number;
  readonly lines: string;
}
const ledgerOf = (order: string) =>
  product.rows<Entry>(`
    select e.kind, e.partner_id, e.amount_minor::int as amount,
      (select string_agg(account || ' ' || amount_minor, ', ' order by line) from ledger_lines l
        where l.client_id = e.client_id and l.entry_id = e.entry_id) as lines
    from ledger_entries e join conversions c using (client_id, conversion_id)
    where c.order_id = '${order}' order by e.stored_at, e.conversion_version`);
const booked = (order: string, count: number) =>
  until(`${count} entries of ${order} are booked`, 30_000, async () => {
    const entries = await ledgerOf(order);
    if (entries.length !== count) throw new Error(`there are ${entries.length}: ${JSON.stringify(entries)}`);
    return entries;
  });
const current = (order: string) =>
  until(`the row of ${order} is stored`, 30_000, async () => {
    const [row] = await product.clickhouse<{
      version: number;
      partner_id: number | null;
      credit_method: string | null;
      fraud_band: string;
    }>(`select version, partner_id, credit_method, fraud_band from events_current where order_id = '${order}'`);
    if (row === undefined) throw new Error("it is not there");
    return row;
  });
const decide = async (...args: readonly string[]) => {
  const ran = await product.tributary("decide", ...args, "--client", "casa-verde", "--reason", "agreed by phone").done;
  expect(ran).toMatchObject({ code: 0 });
  return ran;
};

describe("an operator", () => {
  test("assigns an unattributed order and its commission appears, moves it and the old one is reversed", async () => {
    const [first, second] = [links[0]!.partner_id, links[1]!.partner_id];
    await send([purchase("A-1")]);
    await until("the order is unattributed", 30_000, async () => expect((await current("A-1")).partner_id).toBeNull());

    const shown = await decide("assign", "--order", "A-1", "--partner", String(first));
    expect(shown.stdout).toContain("no_click");
    expect(shown.stderr).toContain("nothing was decided");
    const assigned = JSON.parse(
      (await decide("assign", "--order", "A-1", "--partner", String(first), "--yes", "--json")).stdout,
    );
    expect(assigned.status).toBe("applied");
    expect(await booked("A-1", 1)).toEqual([
      { kind: "earned", partner_id: first, amount: 12_000, lines: "expense:client 12000, payable:partner -12000" },
    ]);

    const again = [
      "reattribute",
      "--order",
      "A-1",
      "--partner",
      String(second),
      "--yes",
      "--json",
      "--id",
      randomUUID(),
    ];
    await decide(...again);
    await decide(...again);
    const entries = await booked("A-1", 3);
    expect(entries.map(({ kind, partner_id, amount }) => [kind, partner_id, amount])).toEqual(
      expect.arrayContaining([
        ["earned", first, 12_000],
        ["reversal", first, -12_000],
        ["earned", second, 6_500],
      ]),
    );
    await until("the event shows its third version", 30_000, async () =>
      expect(await current("A-1")).toMatchObject({ version: 3, partner_id: second, credit_method: "decision" }),
    );
  });

  test("releases a held commission", async () => {
    await send([
      purchase("A-2", {
        ua: "Googlebot/2.1 (+http://www.google.com/bot.html)",
        svc_click_id: clickId(links[0]!.link_id, start - HOUR, 1),
      }),
    ]);
    const [held] = await booked("A-2", 1);
    expect(held!.lines).toBe("expense:client 12000, held:partner -12000");
    await decide("release", "--order", "A-2", "--yes");
    const entries = await booked("A-2", 2);
    expect(entries.map(({ kind, lines }) => [kind, lines])).toContainEqual([
      "adjustment",
      "held:partner 12000, payable:partner -12000",
    ]);
    expect(
      await product.rows(
        "select m.status, m.amount_minor::int as amount from commissions m join conversions c using " +
          "(client_id, conversion_id) where order_id = 'A-2'",
      ),
    ).toEqual([{ status: "pending", amount: 12_000 }]);
  });

  test("decides before the sale is heard of, and confirms fraud", async () => {
    await decide("reject", "--order", "A-3", "--yes");
    await send([purchase("A-3", { svc_click_id: clickId(links[0]!.link_id, start - HOUR, 2) })]);
    const entries = await booked("A-3", 2);
    expect(entries.reduce((sum, { amount }) => sum + amount, 0)).toBe(0);
  });

  test("lists the partners when it names none of them", async () => {
    const ran = await product.tributary(
      "decide",
      "assign",
      "--client",
      "casa-verde",
      "--order",
      "A-1",
      "--partner",
      "999999",
      "--reason",
      "x",
    ).done;
    expect(ran.code).toBe(2);
    expect(ran.stderr).toContain("does not work for casa-verde");
  });
});

describe("the nightly pass", () => {
  test("holds the commissions of a partner who floods, and decides nothing when it runs again", async () => {
    const pool = openPool(product.stack.env.POSTGRES_URL!, { max: 1 });
    await writeReference(pool, "test", {
      clients: [{ client_id: shop.id, fraud: { nightly: { flood_clicks: 100, flood_conversions_ppm: 20_000 } } }],
    });
    await pool.end();
    const day = dayOf(startOfDay(dayOf(start)) - HOUR);
    const at = startOfDay(day) + HOUR;
    const { link_id, partner_id } = links[1]!;
    await send(
      Array.from({ length: 101 }, (_, n) => ({
        event_id: `flood-${n}`,
        t: "click",
        ts: at,
        cid: shop.id,
        did: `phone-${n}`,
        svc_click_id: clickId(link_id, at, 1_000 + n),
        url: "https://www.casa-verde.example/",
      })),
    );
    await send([purchase("F-1", { ts: at + HOUR, svc_click_id: clickId(link_id, at, 1_000) })]);
    await booked("F-1", 1);

    const night = (...args: readonly string[]) =>
      product.tributary("fraud", "nightly", "--client", "casa-verde", "--day", day, ...args).done;
    const shown = await until("clicks and purchase are stored", 30_000, async () => {
      const ran = await night();
      expect(ran.stdout).toContain("101 clicks in a day, 1 conversions");
      expect(ran.stdout).toContain("1 decisions about 1000.00 MXN");
      return ran;
    });
    expect(shown.stderr).toContain("nothing was decided");
    expect((await night("--yes")).stderr).toContain("1 decisions accepted");
    const entries = await booked("F-1", 3);
    expect(entries.map(({ kind, partner_id: to, lines }) => [kind, to, lines])).toContainEqual([
      "earned",
      partner_id,
      "expense:client 6500, held:partner -6500",
    ]);
    await until("the event bears the finding", 30_000, async () =>
      expect(await current("F-1")).toMatchObject({ version: 2, fraud_band: "review", partner_id }),
    );
    expect((await night("--yes")).stdout).toContain("bears the finding already");
    await decide("release", "--order", "F-1", "--yes");
    expect((await booked("F-1", 4)).map(({ kind }) => kind)).toContain("adjustment");
  });
});
