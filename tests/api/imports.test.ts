// Imports over the platform API: a few rows at once, lists and progress, previews, rejected rows,
// and cancelling and undoing an import.
import { createHash, randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import { afterAll, beforeAll, expect, test } from "vitest";
import { identifyFor, pepperOf } from "../../domain/device-id.ts";
import { againEventId } from "../../domain/ids.ts";
import { type SubjectKind, subjectsOf } from "../../domain/personal/suppression.ts";
import { openObjects } from "../../infra/objects/open.ts";
import { keyringOf } from "../../infra/runtime/keyring.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { storeFile } from "../../modules/intake/imports/import-file.ts";
import { beginUpload, failImport, queueUpload } from "../../modules/intake/imports/imports.ts";
import { claimRows, freeUndone, readIdsAgain } from "../../modules/intake/imports/run/claimed-rows.ts";
import { suppress } from "../../modules/privacy/suppressions.ts";
import { apiSuite } from "../support/api-suite.ts";
import { startUpload } from "../support/upload-process.ts";

const { env, demo, pool, owner, send, read, fresh } = apiSuite();
const { client_id: client, partner_id: partner } = demo.links[0] as { client_id: number; partner_id: number };
const objects = openObjects(env.OBJECT_STORE_URL!);
let host: Awaited<ReturnType<typeof startUpload>>;
beforeAll(async () => {
  host = await startUpload({ env, demo }, "upload-api-test");
  await host.ready();
});
afterAll(async () => {
  await Promise.all([host.end(), objects.close()]);
});

const today = new Date().toISOString().slice(0, 10);
const sale = (order_id: string, more: object = {}) => ({
  ...{ order_id, revenue: "10.50", product_id: "p-1", quantity: 1, ts: today },
  ...more,
});
const fast = (rows: readonly object[], more: object = {}, headers = {}) =>
  send("POST", "/api/import/fast", { client_id: client, partner_id: partner, rows, ...more }, "admin", headers);

/** An import that a process has just begun, so that no other process takes it. */
const underWay = async (text: string): Promise<string> => {
  const wanted = { client_id: client, partner_id: partner, filename: `${fresh("file")}.csv`, source: "put" as const };
  const id = (await beginUpload(pool, { ...wanted, created_by: `partner:${partner}` }))!;
  const file = await storeFile(objects, id, Readable.from([Buffer.from(text)]), false);
  await owner.query(
    "update imports set status = 'processing', lease_until = now() + interval '1 hour' where import_id = $1",
    [id],
  );
  expect(await queueUpload(pool, id, client, file)).toBeUndefined();
  await owner.query("update imports set parts = $2, bytes = $3 where import_id = $1", [id, file.parts, file.bytes]);
  return id;
};
/** As if its process had been silent for 15 minutes. */
const expire = (id: string) =>
  owner.query("update imports set lease_until = now() - interval '1 second' where import_id = $1", [id]);
const reaches = (id: string, status: string) =>
  until(`${id} is ${status}`, 60_000, async () => {
    const { body } = await read(`/api/imports/${id}`);
    if (body.status !== status) throw new Error(body.status);
    return body;
  });
const auditOf = async (id: string): Promise<readonly string[]> =>
  (await owner.query("select action from audit where entity = $1 order by audit_id", [`import:${id}`])).rows.map(
    ({ action }) => action as string,
  );

test("a few rows are answered one by one, with both sums, and a repeat is the same import", async () => {
  const order = fresh("order");
  const rows = [
    sale(order),
    sale(order),
    sale(`${order}-2`, { revenue: "=1+1" }),
    sale(`${order}-3`, { currency: "USD" }),
  ];
  const headers = { "idempotency-key": fresh("key") };
  const { status, body } = await fast(rows, {}, headers);
  expect(status).toBe(200);
  expect(body).toMatchObject({ status: "completed_with_errors", total: 4, accepted: 2, duplicate: 1, rejected: 1 });
  expect(body.errors).toMatchObject([{ line: 3, column: "revenue", code: "bad_amount" }]);
  expect((await fast(rows, {}, headers)).body).toEqual(body);
  expect((await fast(rows)).body).toMatchObject({ accepted: 0, duplicate: 3, rejected: 1 });

  const one = (await read(`/api/imports/${body.import_id}`)).body;
  expect(one).toMatchObject({
    ...{ id: body.import_id, source: "fast" },
    error_codes: [{ code: "bad_amount", count: 1 }],
    read_bytes: one.bytes,
  });
  const sums = [one, ...one.other_currencies].map(
    (of: any) => `${of.currency} ${of.file_revenue} ${of.stored_revenue}`,
  );
  expect(sums.sort()).toEqual(["MXN 21.00 10.50", "USD 10.50 10.50"]);
  const listed = (await read(`/api/imports?client_id=${client}&partner_id=${partner}&limit=100`)).body;
  expect(listed.data.map(({ id }: { id: string }) => id)).toContain(body.import_id);
  const errors = await read(`/api/imports/${body.import_id}/errors`);
  expect(errors.headers.get("content-type")).toBe("text/csv; charset=utf-8");
  expect(errors.text).toContain("line,column,code,message,row\r\n4,revenue,bad_amount,");
  expect(await auditOf(body.import_id)).toEqual(["import.created", "import_errors.read"]);
});

test("rows that lack a column are refused each, and what is no body is refused whole", async () => {
  const { body } = await fast([{ order_id: fresh("order") }]);
  expect(body).toMatchObject({ total: 1, rejected: 1, errors: [{ line: 1, column: "ts", code: "missing_ts" }] });
  expect((await fast([])).status).toBe(400);
  expect((await fast(Array.from({ length: 1_001 }, () => ({})))).status).toBe(400);
  expect((await fast([{ color: "red" }])).status).toBe(400);
  expect((await fast([sale("x")], { partner_id: 2_000_000_000 })).status).toBe(404);
});

test("a preview shows what would become of the first hundred rows, and writes nothing", async () => {
  const order = fresh("order");
  await fast([sale(`${order}-known`)]);
  const lines = [
    `${order}-known,1,p-1,1,${today}`,
    `${order},1,p-1,1,${today}`,
    `${order},1,p-1,1,${today}`,
    '"x',
    "a,b",
  ];
  const more = Array.from({ length: 200 }, (_, n) => `${order}-${n},1,p-1,1,${today}`);
  const id = await underWay(
    `order_id;REVENUE,product_id,quantity,ts\n`.replace(";", ",") + [...lines, ...more].join("\n"),
  );
  const { status, body } = await read(`/api/imports/${id}/preview`);
  expect(status).toBe(200);
  expect(body.columns).toEqual(["order_id", "REVENUE", "product_id", "quantity", "ts"]);
  expect(body.mapping).toMatchObject({ revenue: "REVENUE" });
  expect(body.rows).toHaveLength(100);
  const outcomes = body.rows
    .slice(0, 6)
    .map((row: any) => `${row.line} ${row.outcome} ${row.errors[0]?.code ?? ""}`.trim());
  expect(outcomes).toEqual([
    ...[
      "2 duplicate",
      "3 accepted",
      "4 duplicate",
      "5 rejected unclosed_quote",
      "6 rejected wrong_cells",
      "7 accepted",
    ],
  ]);
  const { rows } = await owner.query("select 1 from import_rows where import_id = $1", [id]);
  expect(rows).toEqual([]);
  expect((await send("POST", `/api/imports/${id}/cancel`)).body).toEqual({ import_id: id, status: "processing" });
  expect(await auditOf(id)).toEqual(["import_preview.read", "import.cancelled"]);
  await expire(id);
  const ended = await reaches(id, "cancelled");
  expect(ended.total).toBe(ended.accepted + ended.duplicate + ended.rejected);
  expect((await read(`/api/imports/${id}/preview`)).body.code).toBe("file_removed");
  expect((await send("POST", `/api/imports/${id}/cancel`)).body).toMatchObject({
    ...{ status: 409, code: "invalid_transition", from: "cancelled", allowed: [] },
  });
});

test("only an import whose process has gone is reset, and goes on to its end", async () => {
  const id = await underWay(`order_id,revenue,product_id,quantity,ts\n${fresh("order")},1,p-1,1,${today}\n`);
  await host.end();
  expect((await send("POST", "/api/v3/imports/reset-stuck")).body.import_ids).not.toContain(id);
  await expire(id);
  const former = await send("POST", "/api/imports/reset-stuck");
  expect(former.body.import_ids).toContain(id);
  expect(former.body.reset).toBe(former.body.import_ids.length);
  expect(former.headers.get("deprecation")).toBe("@1767225600");
  expect(former.headers.get("sunset")).toContain("2027");
  expect((await send("POST", "/api/v3/imports/reset-stuck")).body.import_ids).not.toContain(id);
  expect(await auditOf(id)).toEqual(["import.reset"]);
  host = await startUpload({ env, demo }, "upload-api-test");
  expect(await reaches(id, "completed")).toMatchObject({ total: 1, accepted: 1 });
});

test("rows that an import took and never counted are free for another file when it ends", async () => {
  const row = `${fresh("order")},1,p-1,1,${today}`;
  const id = await underWay(`order_id,revenue,product_id,quantity,ts\n${row}\n`);
  const event_id = randomUUID();
  const taken = (import_id: string, fence: bigint) => ({
    ...{ import_id, fence, client_id: client, partner_id: partner, source: "put" as const },
    ...{ mapping: null, parts: 1, checkpoint: null, sha256: null },
  });
  const claimed = (import_id: string, fence = 0n) => claimRows(pool, taken(import_id, fence), [{ event_id, line: 2 }]);
  const other = await underWay("order_id\n");
  expect(await claimed(id)).toEqual(["new"]);
  expect(await claimed(id)).toEqual(["new"]);
  // Another file sends the same row: the first file may never send it.
  expect(await claimed(other)).toEqual(["under_way"]);
  expect(await claimed(id, 1n)).toBeUndefined();

  await expire(id);
  await send("POST", `/api/imports/${id}/cancel`);
  expect(await claimed(id)).toBeUndefined();
  expect(await claimed(other)).toEqual(["new"]);
  await failImport(pool, taken(other, 0n), "as a test has it");
  const { rows } = await owner.query("select 1 from import_rows where event_id = $1", [event_id]);
  expect(rows).toEqual([]);
});

test("a row of an undone import is another event in the next file, one among all files at once", async () => {
  const [row_id, other_row] = [randomUUID(), randomUUID()];
  const [first, second, third] = [await underWay("a\n"), await underWay("b\n"), await underWay("c\n")];
  const claimed = (import_id: string, event_id: string) => {
    const taken = { import_id, fence: 0n, client_id: client, partner_id: partner, source: "put" as const };
    const none = { mapping: null, parts: 1, checkpoint: null, sha256: null };
    return claimRows(pool, { ...taken, ...none }, [{ row_id, event_id, line: 2 }]);
  };
  const again = async () => (await readIdsAgain(pool, client, [row_id, other_row])).get(row_id);
  const free = (import_id: string, event_id: string) => freeUndone(pool, { import_id, client_id: client }, [event_id]);
  expect(await claimed(first, row_id)).toEqual(["new"]);
  expect(await again()).toBeUndefined();
  await free(first, row_id);
  await free(first, row_id);
  const next = againEventId(row_id, 1);
  expect(await again()).toBe(next);
  // Both read the same id; one of them owns it, also after its process died.
  expect(await claimed(second, next)).toEqual(["new"]);
  expect(await claimed(third, next)).toEqual(["under_way"]);
  expect(await claimed(second, next)).toEqual(["new"]);
  expect(await again()).toBe(next);
  await free(second, next);
  expect(await again()).toBe(againEventId(row_id, 2));
  await owner.query(
    "update imports set status = 'failed', lease_until = null, finished_at = now() where import_id = any ($1)",
    [[first, second, third]],
  );
});

test("an erasure takes the rejected rows of its subject, for readers at once; all go after 30 days", async () => {
  const [hers, mail] = [fresh("device"), `${fresh("eve")}@example.com`];
  const ids = ["a", "b", "c", "d", "e"].map(fresh);
  const { body } = await fast([
    sale(ids[0]!, { did: hers, revenue: "x" }),
    sale(ids[1]!, { did: mail, revenue: "x" }),
    sale(ids[2]!, { revenue: "x", email_sha256: createHash("sha256").update(mail).digest("hex") }),
    sale(ids[3]!, { revenue: "x" }),
    sale(ids[4]!, { did: "another", revenue: "x" }),
  ]);
  const id = body.import_id as string;
  expect(body.rejected).toBe(5);
  const csv = async () => (await read(`/api/imports/${id}/errors`)).text;
  const isIn = (text: string) => ids.map((order) => text.includes(order));
  expect(isIn(await csv())).toEqual([true, true, true, true, true]);

  const identify = identifyFor(pepperOf(keyringOf(env.TRIBUTARY_SECRET!).pepper, client), 10);
  const subject = (kind: SubjectKind, value: string) =>
    subjectsOf(kind, value, identify).map((one) => ({ kind, subject: one }));
  const subjects = [...subject("did", hers), ...subject("email", mail), ...subject("order_id", ids[3]!)];
  await suppress(pool, client, subjects, { since: Date.now(), reason: "asked", actor: "ana" });
  expect(isIn(await csv())).toEqual([false, false, false, false, true]);
  const stored = async () => {
    let text = "";
    for await (const { key } of objects.list(`imports/${id}/errors/`)) text += (await objects.get(key)).toString();
    return text;
  };
  expect(await stored()).toContain(hers);
  const again = async () => {
    await host.end();
    host = await startUpload({ env, demo }, "upload-api-test");
  };
  await again();
  await until("her rows are gone", 20_000, async () => expect(await stored()).not.toContain(hers));
  expect(isIn(await stored())).toEqual([false, false, false, false, true]);

  await owner.query("update imports set finished_at = now() - interval '31 days' where import_id = $1", [id]);
  await again();
  await until("all of them are gone", 20_000, async () => expect(await stored()).toBe(""));
});

test("what a user may not see is unknown, and viewers read no rows", async () => {
  const id = await underWay("order_id\n");
  expect((await read(`/api/imports/${id}`, "viewer")).body).toMatchObject({ created_by: "***" });
  for (const path of [`/api/imports/${id}/errors`, `/api/imports/${id}/preview`])
    expect((await read(path, "viewer")).status).toBe(403);
  expect((await send("POST", "/api/imports/reset-stuck", undefined, "manager")).status).toBe(403);
  expect((await read("/api/imports/imp_00000000-0000-4000-8000-000000000000")).status).toBe(404);
  await expire(id);
  await reaches(id, "failed");
});
