// A row of a file becomes an event, or is refused with the column at fault.
import { expect, test } from "vitest";
import { identifyFor } from "../../domain/device-id.ts";
import { sentEventId } from "../../domain/ids.ts";
import { BadFile, readHead } from "../../modules/intake/imports/csv/csv-head.ts";
import { cellsIn } from "../../modules/intake/imports/csv/csv-lines.ts";
import { type Columns, statedAmount } from "../../processors/admit/upload/csv-row.ts";
import { admitUpload, type UploadFacts } from "../../processors/admit/upload/upload.ts";
import type { EventReceived } from "../../schemas/generated.ts";

const now = Date.parse("2026-11-20T12:00:00Z");
const identify = identifyFor(Buffer.alloc(32, 1), 100);
const facts: UploadFacts = {
  ...{ clientId: 7, segments: [], consentDefault: 255, identify },
  ...{ importId: "imp_x", partnerId: 22, isPartners: true },
};
const arrival = { receivedAt: now, sender: "22", address: null, header: () => undefined };
const head = "order_id,revenue,product_id,quantity,ts";

const headOf = (text: string, mapping: Parameters<typeof readHead>[1] = null) =>
  readHead(
    (async function* () {
      yield Buffer.from(text);
    })(),
    mapping,
  );
const admit = async (text: string, more: Partial<UploadFacts> = {}) => {
  const { ours, delimiter } = await headOf(text);
  const rows = text.split("\n").slice(1);
  const events = rows.map((row, n) => ({ line: n + 2, cells: cellsIn(row, delimiter) }));
  return [...admitUpload({ events, columns: ours }, arrival, { ...facts, ...more })];
};
const event = async (text: string, more?: Partial<UploadFacts>): Promise<EventReceived> => {
  const [found] = await admit(text, more);
  if (found?.kind !== "accepted") throw new Error(JSON.stringify(found));
  return found.data;
};
const refusal = async (text: string, more?: Partial<UploadFacts>) => {
  const [found] = await admit(text, more);
  return found?.kind === "refused" ? `${found.refusal.field} ${found.refusal.code}` : "accepted";
};

test("a row is a purchase with the credit of the partner who sent it", async () => {
  expect(await event(`${head}\no-1,1234.50,p-1,2,2026-11-19T10:00:00Z`)).toMatchObject({
    ...{ t: "purchase", source: "upload", client_id: 7, order_id: "o-1", product_id: "p-1", quantity: 2 },
    ...{ value_minor: 123_450n, currency: "MXN", partner_ref: "22", import_id: "imp_x", sender_event_id: null },
    ...{ ts: Date.parse("2026-11-19T10:00:00Z"), client_side: false, ip: null, ua: null },
  });
});

test("a row says whether a partner or a manager of the client has sent its file", async () => {
  const row = `${head}\no-1,10,p-1,1,2026-11-19T10:00:00Z`;
  expect((await event(row)).by_partner).toBe(true);
  expect((await event(row, { isPartners: false })).by_partner).toBe(false);
});

test("the line of an order is one event, whatever else a row of it says; each product is a line", async () => {
  const id = async (row: string, more?: Partial<UploadFacts>) => (await event(`${head}\n${row}`, more)).event_id;
  const first = await id("o-1,10,p-1,1,2026-11-19");
  expect(await id(" o-1 ,99,p-1,3,2026-11-18")).toBe(first);
  expect(await id("o-1,10,p-2,1,2026-11-19")).not.toBe(first);
  expect(await id("o-1,10,p-1,1,2026-11-19", { partnerId: 23 })).not.toBe(first);
  expect(await id("o-1,10,p-1,1,2026-11-19", { clientId: 8 })).not.toBe(first);
});

test("an id in a partner's file is no id of the client's own systems, nor another partner's", async () => {
  const row = `${head},event_id\no-1,10,p-1,1,2026-11-19,order-9101-1`;
  const ids = await Promise.all(
    [{}, { partnerId: 23 }, { isPartners: false }].map(async (more) => (await event(row, more)).event_id),
  );
  expect(ids[2]).toBe(sentEventId(7, "order-9101-1"));
  expect(new Set(ids).size).toBe(3);
});

test("a row of another type is the same event only when all of it is the same", async () => {
  const id = async (row: string) => (await event(`t,ts,did,revenue\n${row}`)).event_id;
  const first = await id("lead_submit,2026-11-19,d1,10");
  expect(await id("lead_submit,2026-11-19,d1,10")).toBe(first);
  expect(await id("lead_submit,2026-11-19,d1,11")).not.toBe(first);
});

test("an e-mail that comes hashed gets the key of its client, as the address from elsewhere does", async () => {
  const sha = "B4C9A289323B21A01C3E940F150EB9B8C542587F1ABFD8F0E1CC1FFC5E475514";
  const data = await event(`${head},email_sha256\no-1,1,p,1,2026-11-19,${sha}`);
  expect(JSON.parse(data.props).email).toBe(identify.hashed(sha.toLowerCase()));
  expect(data.props).not.toContain(sha.toLowerCase());
  expect(await refusal(`${head},email_sha256\no-1,1,p,1,2026-11-19,ana@example.com`)).toBe(
    "email_sha256 bad_email_sha256",
  );
});

test.each([
  ["12,50", 1_250n],
  ["1.234,50", 123_450n],
  ["1234.50", 123_450n],
])("where semicolons separate cells %s is an amount", async (text, minor) => {
  expect(await event(`${head.replaceAll(",", ";")}\no-1;${text};p;1;2026-11-19`)).toMatchObject({ value_minor: minor });
});

test.each([
  ["o-1,1,p,1,", "ts missing_ts"],
  ["o-1,1,p,1,2026-02-30", "ts bad_ts"],
  ["o-1,1,p,1,yesterday", "ts bad_ts"],
  ["o-1,1,p,1,1763546400", "ts ts_too_old"],
  [",1,p,1,2026-11-19", "order_id missing_prop"],
  ["o-1,,p,1,2026-11-19", "revenue missing_prop"],
  ["o-1,-1,p,1,2026-11-19", "revenue bad_amount"],
  ["o-1,1.234,p,1,2026-11-19", "revenue bad_amount"],
  ["o-1,=1+1,p,1,2026-11-19", "revenue bad_amount"],
  ["o-1,1,p,1.5,2026-11-19", "quantity bad_quantity"],
  ["o-1,1,p,0,2026-11-19", "quantity bad_quantity"],
  ["o-1,1,p,1", "null wrong_cells"],
  ["o-1,1,p,1,2026-11-19,more", "null wrong_cells"],
])("%s is refused as %s", async (row, expected) => expect(await refusal(`${head}\n${row}`)).toBe(expected));

test("partners send no refunds, and no one uploads clicks", async () => {
  const refund = "t,ts,order_id,revenue\nrefund,2026-11-19,o-1,5";
  expect(await refusal(refund)).toBe("t not_from_upload");
  expect(await event(refund, { isPartners: false })).toMatchObject({ t: "refund", value_minor: 500n });
  expect(await refusal("t,ts,did\nclick,2026-11-19,d", { isPartners: false })).toBe("t not_from_upload");
});

test.each([
  ["", "empty_file"],
  ["order_id,revenue\n", "missing_columns"],
  [`${head},ts\n`, "column_twice"],
  [`${"x,".repeat(300)}${head}\n`, "too_many_columns"],
  ['"order_id\nx', "unclosed_quote"],
  ["PK\u0003\u0004\u0000\n", "bad_text"],
])("the head %j is refused as %s", async (text, code) => {
  const error = await headOf(text).catch((one: unknown) => one);
  expect(error).toBeInstanceOf(BadFile);
  expect((error as BadFile).code).toBe(code);
});

test("a head may have a BOM, any order, any case, other columns, quotes, and names of its own", async () => {
  const found = await headOf('\ufeff"Pedido";Revenue;note;product_id;Quantity;TS\n', { order_id: "pedido" });
  expect(found.ours).toEqual({
    names: ["order_id", "revenue", null, "product_id", "quantity", "ts"],
    hasDecimalComma: true,
  });
  await expect(headOf(`${head}\n`, { did: "customer" })).rejects.toThrow(/columns that the file has not: customer/);
});

test("the stated amount of a row is also read if the row is refused", () => {
  const columns: Columns = { names: ["revenue", "currency"], hasDecimalComma: true };
  const of = (...cells: string[]) => statedAmount({ line: 2, cells }, columns);
  expect([of("12,5", ""), of("3", "jpy"), of("x", "MXN"), of("1", "XXY"), of("")]).toEqual([
    { currency: "MXN", minor: 1_250n },
    { currency: "JPY", minor: 3n },
    ...[null, null, null],
  ]);
});
