// Dead letters over HTTP: found by any of their properties, retried and discarded, with a record of
// who did it.
import { afterAll, beforeEach, expect, test } from "vitest";
import { openRegistry } from "../../infra/avro/registry.ts";
import { openWire } from "../../infra/avro/wire.ts";
import { openKafka } from "../../infra/kafka/kafka.ts";
import { sql } from "../../infra/postgres/sql.ts";
import type { Operation } from "../../schemas/generated.ts";
import { topics } from "../../topics.ts";
import { apiSuite } from "../support/api-suite.ts";

const { env, demo, owner, read, send } = apiSuite();
const client = demo.clients[0].id as number;
afterAll(async () => {
  await clean();
});
/** Only letters of this file have this stage. */
const STAGE = "of-this-test";
const clean = () => owner.query(sql`delete from dead_letters where stage = ${STAGE}`);
const idOf = (n: number): string => `dl_${String(n).padStart(32, "0")}`;
const DAY_MS = 86_400_000;
const now = Date.now();

/** Letter n failed first n days ago, and last one hour after that. */
const put = (n: number, state: "waiting" | "parked" | "reprocessed", client_id: number | null = client) => {
  const first = new Date(now - n * DAY_MS);
  const last = new Date(now - n * DAY_MS + 3_600_000);
  return owner.query(sql`
    insert into dead_letters (letter_id, kind, state, stage, code, message, source_topic, source_partition,
      source_offset, kept_topic, kept_partition, kept_offset, root, client_id, first_failed_at, last_failed_at,
      next_attempt_at, closed_at)
    values (${idOf(n)}, 's2s', ${state}, ${STAGE}, ${`code_${n}`}, 'why', 'events.raw', 0, ${n}, 's2s.dlq', 0, ${n},
      ${crypto.randomUUID()}, ${client_id}, ${first}, ${last},
      ${state === "waiting" ? new Date(now + n * DAY_MS) : null}, ${state === "reprocessed" ? last : null})`);
};
beforeEach(async () => {
  await clean();
  await put(1, "waiting");
  await put(2, "parked", null);
  await put(3, "waiting");
  await put(60, "parked");
  await put(4, "reprocessed");
});

const list = async (query: string) => (await read(`/api/dead-letters?stage=${STAGE}&${query}`)).body;
const numbers = (body: any): readonly number[] => body.data.map(({ id }: { id: string }) => Number(id.slice(3)));

test("every open one is listed, however old, and days are those on which it failed last", async () => {
  expect(numbers(await list(""))).toEqual([1, 2, 3, 4, 60]);
  expect(numbers(await list("state=parked"))).toEqual([2, 60]);
  expect(numbers(await list(`client_id=${client}&state=waiting`))).toEqual([1, 3]);
  expect(numbers(await list("code=code_60"))).toEqual([60]);
  const to = new Date(now - 10 * DAY_MS).toISOString().slice(0, 10);
  const from = new Date(now - 100 * DAY_MS).toISOString().slice(0, 10);
  expect(numbers(await list(`from=${from}&to=${to}`))).toEqual([60]);
  expect((await list("from=2026-02-01&to=2026-01-01")).code).toBe("bad_range");
});

test("they are sorted by the first failure and by the next attempt, page by page", async () => {
  expect(numbers(await list("sort=first_failed_at"))).toEqual([60, 4, 3, 2, 1]);
  const seen: number[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const page: any = await list(`sort=next_try_at&limit=2${cursor === "" ? "" : `&cursor=${cursor}`}`);
    seen.push(...numbers(page));
    cursor = page.next_cursor;
  }
  expect(seen).toEqual([1, 3, 2, 4, 60]);
  expect((await list("sort=message")).errors[0].pointer).toBe("/sort");
});

test("a letter is shown without its bytes, and the depth is of all that are open", async () => {
  const body = await list("limit=1");
  const { rows } = await owner.query(
    "select count(*)::int as n from dead_letters where kind = 's2s' and state in ('waiting', 'retrying', 'parked')",
  );
  expect(body.depth.s2s).toBe(rows[0].n);
  expect(body.data[0]).toMatchObject({ source: { topic: "events.raw", partition: 0, offset: 1 }, client_id: client });
  expect(Object.keys(body.data[0])).not.toEqual(expect.arrayContaining(["root"]));
  expect(body.data[0].last_failed_at).toBe(new Date(now - DAY_MS + 3_600_000).toISOString());
});

test("one is retried or given up, with a row of the audit and a record in the log", async () => {
  const post = (n: number, verb: string, body?: object) => send("POST", `/api/dead-letters/${idOf(n)}/${verb}`, body);
  expect((await post(60, "retry")).body).toEqual({ status: "queued", id: idOf(60) });
  const reason = "test garbage";
  expect((await post(2, "discard", { reason })).body).toEqual({ status: "discarded", id: idOf(2) });
  expect((await list("state=discarded")).data).toMatchObject([
    { id: idOf(2), status: "discarded", close_reason: reason, closed_by: "admin@demo.tributary.test" },
  ]);
  for (const [n, verb] of [
    [2, "retry"],
    [2, "discard"],
    [4, "retry"],
    [4, "discard"],
  ] as const)
    expect((await post(n, verb, verb === "discard" ? { reason: "again" } : undefined)).status, `${verb} ${n}`).toBe(
      409,
    );
  const audited = async (n: number) =>
    (await read(`/api/audit?entity=dead_letter:${idOf(n)}`)).body.data.map((row: any) => [
      row.action,
      row.actor,
      row.client_id,
    ]);
  expect(await audited(60)).toContainEqual(["dead_letter.retried", "admin@demo.tributary.test", client]);
  expect(await audited(2)).toContainEqual(["dead_letter.discarded", "admin@demo.tributary.test", null]);
  expect(await audited(4)).toEqual([]);
  const wire = await openWire([topics.operations], openRegistry({ url: env.SCHEMA_REGISTRY_URL! }));
  const said: Operation[] = [];
  await openKafka({ brokers: env.KAFKA_BROKERS!, clientId: "test" }).replay({
    topics: ["operations"],
    onBatch: ({ topic, partition, messages }) => {
      for (const { value, offset } of messages)
        said.push(wire.decode(topics.operations, value, { topic, partition, offset }).data);
    },
  });
  expect(said).toContainEqual(
    expect.objectContaining({ kind: "dead_letter_discard", target: idOf(2), phase: "succeeded" }),
  );
});

test("of ten who give one up at once one does", async () => {
  const answers = await Promise.all(
    Array.from({ length: 10 }, (_, n) => send("POST", `/api/dead-letters/${idOf(1)}/discard`, { reason: `try ${n}` })),
  );
  expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array(9).fill(409)]);
});
