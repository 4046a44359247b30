// Files that are sent in parts: begun and completed over the platform API, stored once by the
// upload host wherever it is killed, and imported with the mapping of their sender.
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import nodeProcess from "node:process";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openObjects } from "../../infra/objects/open.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { apiSuite } from "../support/api-suite.ts";
import { startUpload } from "../support/upload-process.ts";

const { env, demo, owner, send, read, fresh, running, tokens } = apiSuite();
const { client_id: client, partner_id: partner } = demo.links[0] as { client_id: number; partner_id: number };
const objects = openObjects(env.OBJECT_STORE_URL!);
let host: Awaited<ReturnType<typeof startUpload>>;
const start = async (failpoints = "") => {
  host = await startUpload({ env, demo }, "upload-parts-test", failpoints);
  await host.ready();
};
beforeAll(() => start());
afterAll(async () => {
  await Promise.all([host.end(), objects.close()]);
});

const PART = 8 * 1024 * 1024;
const today = new Date().toISOString().slice(0, 10);
const sha256 = (bytes: Uint8Array) => createHash("sha256").update(bytes).digest("hex");
/** Few rows with many bytes, so that there is more than one part. */
const fileOf = (order: string, rows: number, head = "order_id,revenue,product_id,quantity,ts"): Buffer => {
  const note = "x".repeat(40_000);
  const lines = Array.from({ length: rows }, (_, n) => `${order}-${n},10.50,p-1,1,${today},${note}`);
  return Buffer.from(`${head},note\n${lines.join("\n")}\n`);
};
const partsOf = (file: Buffer): readonly Buffer[] =>
  Array.from({ length: Math.ceil(file.length / PART) }, (_, n) => file.subarray(n * PART, (n + 1) * PART));
const listOf = (file: Buffer) => partsOf(file).map((bytes, n) => ({ part: n + 1, sha256: sha256(bytes) }));

interface Begun {
  readonly upload_id: string;
  readonly part_urls: readonly string[];
  readonly token: string;
}
const begin = async (file: Buffer, more: object = {}): Promise<Begun> => {
  const given = { client_id: client, partner_id: partner, filename: "sales.csv", size: file.length, ...more };
  const { status, body } = await send("POST", "/api/v3/upload/init", given);
  expect({ status, body }).toMatchObject({ status: 201, body: { part_size: PART } });
  return body as Begun;
};
const put = async (path: string, bytes: Buffer, token: string, headers: Readonly<Record<string, string>> = {}) => {
  const answer = await fetch(`${host.url}${path}`, {
    method: "PUT",
    body: new Uint8Array(bytes),
    headers: { authorization: `Bearer ${token}`, "content-sha256": sha256(bytes), ...headers },
  });
  return { status: answer.status, body: (await answer.json()) as any };
};
const complete = (upload_id: string, parts: readonly object[]) =>
  send("POST", "/api/v3/upload/complete", { upload_id, parts });
const process = (import_id: string, mapping?: object) =>
  send("POST", "/api/v3/imports/process", { import_id, mapping });
const reaches = (id: string, status: string) =>
  until(`${id} is ${status}`, 60_000, async () => {
    const { body } = await read(`/api/imports/${id}`);
    if (body.status !== status) throw new Error(`${body.status}: ${body.error}`);
    return body;
  });
const pieces = async (id: string): Promise<readonly string[]> => {
  const found: string[] = [];
  for await (const { key } of objects.list(`imports/${id}/parts/`)) found.push(key);
  return found;
};

test("parts go in any order, each is compared, and the file is imported by the mapping of its sender", async () => {
  const file = fileOf(fresh("order"), 250, "Pedido,revenue,product_id,quantity,ts");
  const [first, second] = partsOf(file) as [Buffer, Buffer];
  const { upload_id, part_urls, token } = await begin(file, { sha256: sha256(file) });
  expect(part_urls).toEqual([1, 2].map((part) => `/parts/${upload_id}/${part}`));
  const id = upload_id.replace("upl_", "imp_");
  expect((await read(`/api/imports/${id}/preview`)).body.code).toBe("not_uploaded");

  expect(await put(part_urls[1]!, second, token)).toMatchObject({
    status: 200,
    body: { part: 2, bytes: second.length },
  });
  expect((await complete(upload_id, listOf(file))).body).toMatchObject({ code: "parts_missing", parts: [1] });
  expect((await put(part_urls[0]!, first, token, { "content-sha256": "0".repeat(64) })).body).toMatchObject({
    ...{ status: 400, code: "checksum_mismatch" },
  });
  expect((await put(part_urls[0]!, first, token, { "content-sha256": "abc" })).body.code).toBe("bad_checksum");
  expect((await put(part_urls[0]!, second, token)).body.code).toBe("bad_part_size");
  expect((await put(part_urls[0]!, first, token)).status).toBe(200);
  expect((await put(part_urls[0]!, first, token)).status).toBe(200);
  expect((await put(part_urls[1]!, Buffer.alloc(second.length), token)).body.code).toBe("part_differs");

  const other = listOf(file).map((one) => ({ ...one, sha256: sha256(first) }));
  expect((await complete(upload_id, other)).body).toMatchObject({ code: "checksum_mismatch", parts: [2] });
  expect((await complete(upload_id, [...listOf(file), { part: 3, sha256: sha256(first) }])).status).toBe(400);
  expect((await complete(upload_id, [...listOf(file), ...listOf(file)])).status).toBe(400);
  const done = await complete(upload_id, listOf(file).reverse());
  expect(done).toMatchObject({ status: 200, body: { import_id: id, status: "pending_upload" } });
  expect((await complete(upload_id, listOf(file))).body).toEqual(done.body);
  expect((await put(part_urls[0]!, first, token)).status).toBe(200);

  expect((await process(id)).body.errors).toMatchObject([{ code: "missing_columns" }]);
  expect((await process(id, { order_id: "Order" })).body.errors).toMatchObject([
    { pointer: "/mapping", code: "unknown_column" },
  ]);
  expect((await process(id, { order: "Pedido" })).status).toBe(400);
  const queued = await process(id, { order_id: "Pedido" });
  expect(queued).toMatchObject({ status: 200, body: { import_id: id, status: "queued" } });
  expect(await reaches(id, "completed")).toMatchObject({ source: "v3", total: 250, accepted: 250, bytes: file.length });
  expect((await process(id, { order_id: "Pedido" })).body).toMatchObject({ code: "invalid_transition" });
  const { rows } = await owner.query("select sha256 from imports where import_id = $1", [id]);
  expect(rows).toEqual([{ sha256: sha256(file) }]);
});

test("the example of the guide sends a file in parts and queues its import", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tributary-parts-"));
  const file = fileOf(fresh("order"), 250);
  writeFileSync(join(folder, "sales.csv"), file);
  const [, script] = /## Large files[\s\S]*?```sh\n([\s\S]*?)```/.exec(readFileSync("docs/import-csv.md", "utf8"))!;
  const given = { API_URL: running().url, UPLOAD_URL: host.url, TOKEN: tokens.admin };
  const whose = { CLIENT: String(client), PARTNER: String(partner) };
  const { stdout } = await promisify(execFile)("sh", ["-ec", script!], {
    cwd: folder,
    env: { PATH: nodeProcess.env.PATH, ...given, ...whose },
  });
  const [{ import_id: id, status }] = [JSON.parse(/\{"import_id.*/.exec(stdout)![0])];
  expect(status).toBe("queued");
  expect(await reaches(id, "completed")).toMatchObject({ total: 250, accepted: 250, bytes: file.length });
});

test("only the token of the upload stores its parts, and what was never begun is unknown", async () => {
  const file = fileOf(fresh("order"), 1);
  const [one, two] = [await begin(file), await begin(file)];
  expect((await put(one.part_urls[0]!, file, two.token)).status).toBe(401);
  expect((await put(one.part_urls[0]!, file, demo.upload_tokens[0])).status).toBe(401);
  expect((await put(one.part_urls[0]!.replace(/upl_.{8}/, "upl_00000000"), file, one.token)).status).toBe(401);
  expect((await put(`/parts/${one.upload_id}/2`, file, one.token)).status).toBe(404);
  expect((await put(`/parts/${one.upload_id}/..%2f1`, file, one.token)).status).toBe(404);
  const unknown = "00000000-0000-4000-8000-000000000000";
  expect((await complete(`upl_${unknown}`, listOf(file))).status).toBe(404);
  expect((await process(`imp_${unknown}`)).status).toBe(404);
  expect((await process(one.upload_id.replace("upl_", "imp_"))).body.code).toBe("not_uploaded");
  for (const [more, pointer] of [
    [{ filename: "../sales.csv" }, "/filename"],
    [{ filename: "sales.csv.gz" }, "/filename"],
    [{ size: 0 }, "/size"],
    [{ size: 5 * 1024 ** 3 + 1 }, "/size"],
    [{ sha256: "x" }, "/sha256"],
  ] as const) {
    const given = { client_id: client, partner_id: partner, filename: "a.csv", size: 1, ...more };
    expect((await send("POST", "/api/v3/upload/init", given)).body.errors[0].pointer).toBe(pointer);
  }
});

test("a repeat of init with its key is the same upload and the same token, which is stored nowhere", async () => {
  const given = { client_id: client, partner_id: partner, filename: "a.csv", size: 10 };
  const headers = { "idempotency-key": fresh("key") };
  const first = await send("POST", "/api/v3/upload/init", given, "admin", headers);
  expect((await send("POST", "/api/v3/upload/init", given, "admin", headers)).body).toEqual(first.body);
  const { rows } = await owner.query("select answer from idempotency_keys where key = $1", [
    headers["idempotency-key"],
  ]);
  expect(rows).toHaveLength(1);
  expect(rows[0].answer).not.toContain(first.body.token);
});

test("a file of other bytes than were announced is not imported", async () => {
  const file = fileOf(fresh("order"), 1);
  const { upload_id, part_urls, token } = await begin(file, { sha256: "0".repeat(64) });
  await put(part_urls[0]!, file, token);
  const id = (await complete(upload_id, listOf(file))).body.import_id;
  await process(id);
  expect(await reaches(id, "failed")).toMatchObject({ total: 0, error: expect.stringContaining(sha256(file)) });
  const { rows } = await owner.query("select record from outbox where record ->> 'entity' = $1", [`import:${id}`]);
  expect(rows).toMatchObject([{ record: { client_id: client, type: "import.failed" } }]);
  expect(JSON.parse(rows[0].record.data)).toMatchObject({ import_id: id, status: "failed", accepted: 0 });
});

test.each(["settled", "put", "stored"])("a kill -9 of the host at upload-part-%s loses no part", async (step) => {
  const file = fileOf(fresh("order"), 3);
  const { upload_id, part_urls, token } = await begin(file);
  await host.end();
  await start(`upload-part-${step}=1`);
  await expect(put(part_urls[0]!, file, token)).rejects.toThrow();
  expect(await host.died).toBe("SIGKILL");
  expect(host.hits()).toContain(" killed");
  await start();
  const isStored = step === "stored";
  expect((await complete(upload_id, listOf(file))).status).toBe(isStored ? 200 : 409);
  expect((await put(part_urls[0]!, file, token)).status).toBe(200);
  const id = (await complete(upload_id, listOf(file))).body.import_id;
  await process(id);
  expect(await reaches(id, "completed")).toMatchObject({ total: 3, accepted: 3 });
});

test("an upload that no one finishes ends after 24 hours, and nothing of it stays", async () => {
  const file = fileOf(fresh("order"), 250);
  const { upload_id, part_urls, token } = await begin(file);
  const id = upload_id.replace("upl_", "imp_");
  await put(part_urls[0]!, partsOf(file)[0]!, token);
  expect(await pieces(id)).toHaveLength(1);
  await owner.query("update imports set created_at = now() - interval '25 hours' where import_id = $1", [id]);
  // The host looks for remains at its start and every minute.
  await host.end();
  await start();
  expect(await reaches(id, "failed")).toMatchObject({ error: expect.stringContaining("24 hours") });
  await until("its parts are gone", 20_000, async () => expect(await pieces(id)).toEqual([]));
  expect((await put(part_urls[1]!, partsOf(file)[1]!, token)).body.code).toBe("upload_ended");
  expect((await complete(upload_id, listOf(file))).status).toBe(409);

  // A part that arrived meanwhile is deleted too.
  await objects.put(`imports/${id}/parts/000001`, file);
  await owner.query("update imports set finished_at = now() - interval '11 minutes' where import_id = $1", [id]);
  await host.end();
  await start();
  await until("the last part is gone", 20_000, async () => {
    const { rows } = await owner.query("select file_removed_at from imports where import_id = $1", [id]);
    expect(rows[0].file_removed_at).not.toBeNull();
  });
  expect(await pieces(id)).toEqual([]);
});
