// The list of erased subjects on a real database: known everywhere soon after its commit, kept for
// ever, separate by tenant, and reported when it cannot be read.
import { afterAll, beforeAll, expect, test } from "vitest";
import { identifyFor, pepperOf } from "../../domain/device-id.ts";
import { subjectsOf } from "../../domain/personal/suppression.ts";
import { transaction } from "../../infra/postgres/sql.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { openSuppressions, suppress } from "../../modules/privacy/suppressions.ts";
import { topics } from "../../topics.ts";
import { attributed, clientId, hourMs, noon, recorded } from "../support/builders.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";

let database: FreshDatabase;
beforeAll(async () => {
  database = await freshDatabase();
});
afterAll(() => database.drop());

const identify = identifyFor(pepperOf("the secret of an installation", clientId), 10);
const subject = (did: string) => ({ kind: "did" as const, subject: subjectsOf("did", did, identify)[0]! });
const ofDevice = (did: string) => recorded(topics.eventsAttributed, attributed({ did: identify.plain(did) }));
const why = { since: noon, reason: "asked to", actor: "test" };

test("an empty list asks nothing, and a subject is known in another process soon after its commit", async () => {
  const pool = database.pool();
  const list = openSuppressions(database.pool());
  expect(await list.hides()).toBeUndefined();
  await suppress(pool, clientId, [subject("phone"), subject("tablet")], why);
  const hides = await until("the list has grown", 30_000, async () => {
    const known = await list.hides();
    if (known === undefined) throw new Error("it is empty");
    return known;
  });
  const { name } = topics.eventsAttributed;
  expect([hides(ofDevice("phone"), name), hides(ofDevice("tablet"), name), hides(ofDevice("desk"), name)]).toEqual([
    true,
    true,
    false,
  ]);
  await list.close();
});

test("a subject that is erased again is hidden up to the later moment, and none is ever taken off", async () => {
  const pool = database.pool();
  await suppress(pool, clientId, [subject("twice")], why);
  await suppress(pool, clientId, [subject("twice")], { ...why, since: noon - hourMs });
  await suppress(pool, clientId, [subject("twice")], { ...why, since: noon + hourMs, reason: "again" });
  const { rows } = await database.adminPool.query("select since, reason from suppressions where subject = $1", [
    subject("twice").subject,
  ]);
  expect(rows).toEqual([{ since: noon + hourMs, reason: "again" }]);
  const remove = transaction(pool, [clientId], (tx) => tx.query("delete from suppressions"));
  await expect(remove).rejects.toThrow("permission denied");
});

test("a tenant sees its own subjects", async () => {
  const pool = database.pool();
  const count = (clients: number[]) =>
    transaction(pool, clients, async (tx) => (await tx.query("select count(*)::int as n from suppressions")).rows[0].n);
  expect([await count([clientId]), await count([clientId + 1]), await count([])]).toEqual([3, 0, 0]);
  await expect(
    transaction(pool, [clientId + 1], (tx) =>
      tx.query("insert into suppressions values ($1, 'did', repeat('0', 64), now(), 'x', 'x', 1000000)", [clientId]),
    ),
  ).rejects.toThrow("row-level security");
});
