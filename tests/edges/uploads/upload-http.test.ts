// PUT /upload on real servers: each row of a file is accepted, duplicate or rejected exactly once,
// wherever the reading process is killed, and no file name leads outside.
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openObjects } from "../../../infra/objects/open.ts";
import { openPool, transaction } from "../../../infra/postgres/sql.ts";
import { until } from "../../../infra/runtime/timing/wait-until.ts";
import { createToken } from "../../../modules/access/tokens/tokens.ts";
import { cancelWithin } from "../../../modules/intake/imports/cancel.ts";
import { root, spawned } from "../../support/e2e-product.ts";
import { addedToLog, type RunningIngest, startIngest } from "../../support/ingest.ts";
import { sharedStack } from "../../support/shared-stack.ts";
import { startUpload } from "../../support/upload-process.ts";

const stack = sharedStack();
const { client_id: client, partner_id: partner } = stack.demo.links[0] as { client_id: number; partner_id: number };
const { slug } = stack.demo.clients.find(({ id }: { id: number }) => id === client) as { slug: string };
const other = stack.demo.clients.find(({ id }: { id: number }) => id !== client).id as number;
/** The owner of the tables sees every row. */
const owner = openPool(stack.env.POSTGRES_ADMIN_URL!, { max: 2 });
const app = openPool(stack.env.POSTGRES_URL!, { max: 1 });
const objects = openObjects(stack.env.OBJECT_STORE_URL!);
const stamp = Date.now().toString(36);
let ingest: RunningIngest;
let host: Awaited<ReturnType<typeof startUpload>>;
let token: string;

beforeAll(async () => {
  ({ token } = await createToken(app, { kind: "upload", label: "test", partner_id: partner }));
  host = await startUpload(stack, "upload-test");
  ingest = await startIngest(stack.env);
  await Promise.all([ingest.ready(), host.ready()]);
});
afterAll(async () => {
  await Promise.all([ingest.close(), host.end()]);
  await Promise.all([owner.end(), app.end(), objects.close()]);
});

const put = async (
  path: string,
  body: string | Uint8Array<ArrayBuffer>,
  headers: Readonly<Record<string, string>> = {},
) => {
  const answer = await fetch(`${ingest.url}/upload/${path}`, {
    method: "PUT",
    body,
    headers: { authorization: `Bearer ${token}`, ...headers },
  });
  return { status: answer.status, body: (await answer.json()) as any };
};
const importOf = async (id: string): Promise<any> =>
  (await owner.query("select * from imports where import_id = $1", [id])).rows[0];
const ended = (id: string) =>
  until(`${id} has ended`, 60_000, async () => {
    const row = await importOf(id);
    if (row.finished_at === null || row.file_removed_at === null) throw new Error(row.status);
    return row;
  });
const counts = ({ total, accepted, duplicate, rejected }: any) => [total, accepted, duplicate, rejected].map(Number);

const HEAD = "order_id,revenue,product_id,quantity,ts";
/** Every `bad`-th row is invalid. */
const fileOf = (name: string, rows: number, bad = Number.POSITIVE_INFINITY): string => {
  const day = new Date().toISOString().slice(0, 10);
  const lines = Array.from({ length: rows }, (_, n) =>
    [`${stamp}-${name}-${n}`, "10.50", "p-1", (n + 1) % bad === 0 ? 0 : 1, `${day}T00:00:00Z`].join(","),
  );
  return `${HEAD}\n${lines.join("\n")}\n`;
};
const errorsOf = async (id: string): Promise<any[]> => {
  const found: any[] = [];
  for await (const { key } of objects.list(`imports/${id}/errors/`))
    for (const line of (await objects.get(key)).toString().trim().split("\n")) found.push(JSON.parse(line));
  return found;
};

test("the rows of a file are in the log with the partner's credit, and again they are duplicates", async () => {
  const file = fileOf("first", 1_200, 400);
  let id = "";
  const added = await addedToLog(stack, async () => {
    const answer = await put(`${slug}/${partner}/sales.csv`, file);
    expect(answer).toMatchObject({ status: 201, body: { status: "queued" } });
    id = answer.body.import_id;
    expect(await ended(id)).toMatchObject({ status: "completed_with_errors", file_sums: { MXN: "1260000" } });
  });
  const row = await importOf(id);
  expect(counts(row)).toEqual([1_200, 1_197, 0, 3]);
  expect(row).toMatchObject({ stored_sums: { MXN: "1256850" }, error_codes: { bad_quantity: "3" } });
  const events = added.filter(({ import_id }) => import_id === id);
  expect(events).toHaveLength(1_197);
  expect(events[0]).toMatchObject({ source: "upload", client_id: client, partner_ref: String(partner) });
  expect((await errorsOf(id)).map(({ line, column, code }) => [line, column, code])).toEqual(
    [401, 801, 1_201].map((line) => [line, "quantity", "bad_quantity"]),
  );

  const { rows: said } = await owner.query(
    "select record ->> 'type' as type from outbox where record ->> 'entity' = $1",
    [`import:${id}`],
  );
  expect(said).toEqual([{ type: "import.completed" }]);

  const again = await put(`${client}/${partner}/other-name.csv`, file);
  expect(again.body).toMatchObject({ same_file_as: id });
  expect(counts(await ended(again.body.import_id))).toEqual([1_200, 0, 1_197, 3]);
});

const STEPS = ["taken=1", "admitted=2", "claimed=2", "published=2", "errors-stored=2", "counted=2", "ended=1"];
test.each(STEPS)("a kill -9 at import-%s loses no row and counts none twice", async (step) => {
  const name = step.replace("=", "-");
  await host.end();
  let id = "";
  const added = await addedToLog(stack, async () => {
    const dying = await startUpload(stack, "upload-dying", `import-${step}`);
    id = (await put(`${client}/${partner}/${name}.csv`, fileOf(name, 2_500, 100))).body.import_id;
    expect(await dying.died).toBe("SIGKILL");
    expect(dying.hits()).toContain(" killed");
    // Ends the lease, as if 15 minutes had passed.
    await owner.query(
      "update imports set lease_until = now() - interval '1 second' where import_id = $1 and lease_until is not null",
      [id],
    );
    host = await startUpload(stack, "upload-test");
    await ended(id);
  });
  expect(counts(await importOf(id))).toEqual([2_500, 2_475, 0, 25]);
  expect((await importOf(id)).stored_sums).toEqual({ MXN: String(2_475 * 1_050) });
  const ids = added.filter(({ import_id }) => import_id === id).map(({ event_id }) => event_id);
  expect(new Set(ids).size).toBe(2_475);
  expect(await errorsOf(id)).toHaveLength(25);
});

test("the example of the guide is taken, and the command ends with counts and both sums", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tributary-import-"));
  const [example] = /^curl[\s\S]*?^```/m.exec(readFileSync("docs/import-csv.md", "utf8")) ?? [];
  const [sales] = /^cat > sales[\s\S]*?^END$/m.exec(readFileSync("docs/import-csv.md", "utf8")) ?? [];
  const env = { INGEST_URL: ingest.url, CLIENT: String(client), PARTNER: String(partner), UPLOAD_TOKEN: token };
  const script = `${sales!}\n${example!.replace(/```$/, "")}`.replaceAll("A-100", `${stamp}-A-100`);
  const { stdout: answer } = await promisify(execFile)("sh", ["-ec", script], {
    cwd: folder,
    env: { ...process.env, ...env },
  });
  expect(counts(await ended(JSON.parse(answer).import_id))).toEqual([2, 2, 0, 0]);

  const file = join(folder, "sales.csv");
  writeFileSync(file, `${fileOf("command", 3, 3)}${readFileSync(file, "utf8").split("\n")[1]}\n`);
  const given = ["--client", slug, "--partner", String(partner), "--token", token, "--url", ingest.url];
  const ran = await spawned([`${root}/dist/apps/cli/main.js`, "import", file, ...given], {
    ...process.env,
    ...stack.env,
  }).done;
  expect(ran.code).toBe(1);
  expect(ran.stdout).toMatch(/^imp_\S+ completed_with_errors\n4 rows: 2 accepted, 1 duplicate, 1 rejected\n/);
  expect(ran.stdout).toContain("MXN: the file says 530.50, 21.00 of it was taken\n1 rejected: bad_quantity\n");
});

describe("what is refused", () => {
  test.each([
    ["..%2fsales.csv", 400],
    ["%252e%252e%252fsales.csv", 400],
    ["..%5csales.csv", 400],
    ["sales%00.csv", 400],
    ["CON", 400],
    ["..", 404],
    [`${"a".repeat(300)}.csv`, 400],
    ["ｓales.csv", 400],
    ["sales.exe", 400],
    ["sales.csv.zip", 400],
  ])("the name %s is answered %i", async (name, status) => {
    expect((await put(`${client}/${partner}/${name}`, fileOf("name", 1))).status).toBe(status);
  });

  test("paths of another partner or client, tokens of another kind, and none", async () => {
    const file = fileOf("foreign", 1);
    expect((await put(`${client}/${partner + 1}/a.csv`, file)).status).toBe(403);
    expect((await put(`${other}/${partner}/a.csv`, file)).status).toBe(403);
    expect((await put(`no-client/${partner}/a.csv`, file)).status).toBe(403);
    const ingestToken = `Bearer ${stack.demo.clients[0].ingest_token}`;
    expect((await put(`${client}/${partner}/a.csv`, file, { authorization: ingestToken })).status).toBe(401);
    expect((await put(`${client}/${partner}/a.csv`, file, { authorization: "" })).status).toBe(401);
  });

  test("a client that the partner works for since the token was made", async () => {
    const [label, path] = ["bound", `${client}/${partner}/bound.csv`];
    const made = (client_ids: readonly number[]) =>
      createToken(app, { kind: "upload", label, partner_id: partner, client_ids });
    try {
      const { token: foreign } = await made([other]);
      const refused = await until("the token is known", 10_000, async () => {
        const answer = await put(path, fileOf(label, 1), { authorization: `Bearer ${foreign}` });
        if (answer.status === 401) throw new Error("not yet");
        return answer;
      });
      expect([refused.status, refused.body.detail]).toEqual([403, expect.stringContaining("have it rotated")]);
      const { token: bound } = await made([client]);
      await until("the token uploads", 10_000, async () => {
        expect((await put(path, fileOf(label, 1), { authorization: `Bearer ${bound}` })).status).toBe(201);
      });
    } finally {
      ({ token } = await createToken(app, { kind: "upload", label: "test", partner_id: partner }));
      await until("the token of the other tests", 10_000, async () => {
        expect((await put(`${client}/${partner}/not-csv`, "")).status).toBe(400);
      });
    }
  });

  test("empty files, bombs, broken gzip and kinds of encoding", async () => {
    const path = `${client}/${partner}`;
    expect((await put(`${path}/a.csv`, "")).body).toMatchObject({ status: 400, code: "empty_file" });
    const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024, "a"));
    expect((await put(`${path}/a.csv.gz`, bomb)).status).toBe(413);
    expect((await put(`${path}/a.csv.gz`, bomb.subarray(0, 1_000))).body).toMatchObject({ code: "bad_gzip" });
    expect((await put(`${path}/a.csv`, "x", { "content-encoding": "br" })).status).toBe(415);
    const packed = await put(`${path}/a.csv.gz`, gzipSync(fileOf("packed", 3)));
    expect(counts(await ended(packed.body.import_id))).toEqual([3, 3, 0, 0]);
  });
});

test("a file that cannot be read fails with the reason, and a broken row costs itself alone", async () => {
  const zip = await put(`${client}/${partner}/a.csv`, new Uint8Array([80, 75, 3, 4, 0, 0, 10, 255]));
  expect(await ended(zip.body.import_id)).toMatchObject({ status: "failed", error: expect.stringMatching(/UTF-8/) });
  const columns = await put(`${client}/${partner}/a.csv`, "order_id,revenue\n1,2\n");
  expect((await ended(columns.body.import_id)).error).toMatch(/lacks product_id, quantity, ts/);
  const day = new Date().toISOString().slice(0, 10);
  const rows = ['x,1,"p,1,1', `${"x,".repeat(100_000)}`, `=cmd|'/c calc',1,p,1,${day}`, `${stamp}-good,1,p,1,${day}`];
  const broken = await put(`${client}/${partner}/a.csv`, `${HEAD}\r\n${rows.join("\n")}`);
  expect(counts(await ended(broken.body.import_id))).toEqual([4, 2, 0, 2]);
  expect((await errorsOf(broken.body.import_id)).map(({ line, code }) => `${line} ${code}`)).toEqual([
    "2 unclosed_quote",
    "3 row_too_long",
  ]);
});

test("of one name sent twice at once both are imports, and each row is taken once", async () => {
  const file = fileOf("twice", 300);
  const answers = await Promise.all([1, 2].map(() => put(`${client}/${partner}/same.csv`, file)));
  expect(answers.map(({ status }) => status)).toEqual([201, 201]);
  const both = await Promise.all(answers.map(({ body }) => ended(body.import_id)));
  const sum = (n: number) => both.map((row) => counts(row)[n]!).reduce((a, b) => a + b);
  expect([sum(0), sum(1), sum(2)]).toEqual([600, 300, 300]);
});

test("an upload that is broken off becomes no event, and leaves nothing behind", async () => {
  const { hostname, port } = new URL(ingest.url);
  const name = `broken-off-${stamp}.csv`;
  const socket = connect(Number(port), hostname);
  const head = [`PUT /upload/${client}/${partner}/${name} HTTP/1.1`, "Host: x", `Authorization: Bearer ${token}`];
  socket.write(`${[...head, "Content-Length: 1000000"].join("\r\n")}\r\n\r\n${fileOf("off", 100)}`);
  const find = async () =>
    (await owner.query("select * from imports where filename = $1 and client_id = $2", [name, client])).rows[0];
  await until("it has begun", 10_000, async () => expect(await find()).toMatchObject({ status: "pending_upload" }));
  socket.destroy();
  const row = await until("it has ended", 20_000, async () => {
    const found = await find();
    expect(found).toMatchObject({ status: "failed", error: "the sender went away" });
    return found;
  });
  expect(counts(row)).toEqual([0, 0, 0, 0]);
});

const cancel = async (id: string) => {
  const asked = { import_id: id, client_id: client };
  await transaction(app, [client], (tx) => cancelWithin(tx, asked));
};

test("an import that is cancelled while it goes on counts what it sent, and sends no more", async () => {
  let id = "";
  const added = await addedToLog(stack, async () => {
    id = (await put(`${client}/${partner}/long.csv`, fileOf("long", 40_000))).body.import_id;
    await until("some of it is counted", 30_000, async () =>
      expect(Number((await importOf(id)).total)).toBeGreaterThan(0),
    );
    await cancel(id);
    expect(await ended(id)).toMatchObject({ status: "cancelled", error: null });
  });
  const [total, accepted] = counts(await importOf(id));
  expect(total).toBeLessThan(40_000);
  expect(added.filter(({ import_id }) => import_id === id)).toHaveLength(accepted!);
  const { rows } = await owner.query("select count(*)::int as claimed from import_rows where import_id = $1", [id]);
  expect(rows).toEqual([{ claimed: accepted }]);
});

/** The answer to a request whose body comes in two pieces; `between` runs between them. */
const sentSlowly = async (name: string, length: number, pieces: readonly string[], between: () => Promise<void>) => {
  const { hostname, port } = new URL(ingest.url);
  const socket = connect(Number(port), hostname);
  let answer = "";
  socket.on("data", (text) => {
    answer += text;
  });
  const head = [`PUT /upload/${client}/${partner}/${name} HTTP/1.1`, "Host: x", `Authorization: Bearer ${token}`];
  socket.write(`${[...head, `Content-Length: ${length}`].join("\r\n")}\r\n\r\n${pieces[0]}`);
  await between();
  socket.write(pieces[1]!);
  const status = await until("it is answered", 20_000, async () => {
    const [, code] = /^HTTP\/1.1 (\d+)/.exec(answer) ?? [];
    expect(code).toBeDefined();
    return Number(code);
  });
  socket.destroy();
  return status;
};

test("a file of 10 GB is refused before it is sent, and of one that is cancelled no piece is stored", async () => {
  expect(await sentSlowly("huge.csv", 10 * 1024 ** 3, ["x", ""], async () => undefined)).toBe(413);
  const name = `unwanted-${stamp}.csv`;
  const [file, half] = [fileOf("unwanted", 1_000), 20_000];
  let id = "";
  const status = await sentSlowly(name, file.length, [file.slice(0, half), file.slice(half)], async () => {
    id = await until("it has begun", 10_000, async () => {
      const { rows } = await owner.query("select import_id from imports where filename = $1", [name]);
      return rows[0].import_id as string;
    });
    await cancel(id);
  });
  expect(status).toBe(409);
  expect((await importOf(id)).status).toBe("cancelled");
  for await (const { key } of objects.list(`imports/${id}/`)) throw new Error(`${key} is left`);
});

test("the host says that it is well", async () => {
  const answer = await fetch(`${host.url}/health`);
  expect(await answer.json()).toMatchObject({
    status: "ok",
    version: expect.any(String),
    uptime_sec: expect.any(Number),
  });
});
