// Moves of the log over HTTP: planned, accepted once, refused if the state has changed, and carried
// out by any keeper.
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { openMoves } from "../../apps/keeper/schedules/moves.ts";
import { derive } from "../../domain/hmac.ts";
import { openRegistry } from "../../infra/avro/registry.ts";
import { openWire } from "../../infra/avro/wire.ts";
import { type Admin, openKafka, type Producer } from "../../infra/kafka/kafka.ts";
import { keyringOf } from "../../infra/runtime/keyring.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { insertUser } from "../../modules/access/users/create.ts";
import { withUsers } from "../../modules/access/users/users.ts";
import { referenceNow } from "../../modules/catalog/clients/find-client.ts";
import { type MovePlanToken, planToken } from "../../modules/running/log-jobs/plan-token.ts";
import type { Operation } from "../../schemas/generated.ts";
import { topics } from "../../topics.ts";
import { pipeline } from "../../topology.ts";
import { apiSuite } from "../support/api-suite.ts";

const { env, owner, tokens, ask, running, fresh } = apiSuite();
const kafka = openKafka({ brokers: env.KAFKA_BROKERS!, clientId: "test" });
const registry = openRegistry({ url: env.SCHEMA_REGISTRY_URL! });
const GROUP = "tributary.ledger";
const TOPIC = "ledger.entries";
const OTHER = `${fresh("other")}@demo.tributary.test`;
let admin: Admin;
let producer: Producer;
let token: string;
let otherToken: string;

beforeAll(async () => {
  admin = await kafka.admin();
  producer = kafka.producer();
  token = tokens.admin!;
  const known = await referenceNow(owner);
  await withUsers(owner, (tx) => insertUser(tx, { email: OTHER, name: "Other", role: "admin" }, known));
  otherToken = await running().signed({ email: OTHER, sub: OTHER });
});
afterAll(async () => {
  await clean();
  await owner.query("update users set removed_at = clock_timestamp() where email = $1", [OTHER]);
  await admin.deleteGroups([GROUP]);
  await Promise.all([admin.close(), producer.close()]);
});
const clean = async (): Promise<void> => {
  await owner.query("delete from moves");
  await owner.query("delete from group_holds");
};
/** Commits as a worker that has read up to these offsets. */
const readTo = (...offsets: readonly number[]) =>
  admin.setOffsets(GROUP, TOPIC, new Map(offsets.map((offset, partition) => [partition, offset])));
beforeEach(async () => {
  await clean();
  await readTo(50, 30);
});

const rewind = { move: "rewind", target: "ledger", from: "earliest", reason: "a row was lost" };
const plan = (body: object = rewind, as = token) => ask("/api/operations/plan", { method: "POST", token: as, body });
const apply = (plan_token: unknown, as = token, headers: Readonly<Record<string, string>> = {}) =>
  ask("/api/operations", { method: "POST", token: as, body: { plan_token }, headers });
const show = async (id: string) => (await ask(`/api/operations/${id}`, { token })).body;

const openKeeper = () => {
  const log = { info: () => undefined, warn: () => undefined };
  const config = {
    INSTANCE_NAME: "moves-test",
    POSTGRES_URL: env.POSTGRES_URL!,
    REDIS_URL: env.REDIS_URL!,
    KAFKA_TOPIC_PREFIX: "",
    SCHEMA_REGISTRY_URL: env.SCHEMA_REGISTRY_URL!,
    CLICKHOUSE_URL: env.CLICKHOUSE_URL!,
    OBJECT_STORE_URL: env.OBJECT_STORE_URL!,
    TRIBUTARY_SECRET: keyringOf(env.TRIBUTARY_SECRET!),
    GEOIP_CITY_DB: env.GEOIP_CITY_DB!,
    GEOIP_ASN_DB: env.GEOIP_ASN_DB!,
    NETWORKS_FILE: env.NETWORKS_FILE!,
  };
  return openMoves({ config, topology: pipeline, kafka, registry, produce: producer.send, log });
};
const atWork = () => false;
const isReleased = (id: string) =>
  until("the workers may join again", 30_000, async () => {
    const { rows } = await owner.query("select released_at from group_holds where operation_id = $1", [id]);
    if (rows[0]?.released_at == null) throw new Error(JSON.stringify(await show(id)));
  });
const isOver = (id: string) =>
  until("it is over", 30_000, async () => {
    const found = await show(id);
    if (found.finished_at === null) throw new Error(JSON.stringify(found));
    return found;
  });
const audited = async (id: string): Promise<readonly Operation[]> => {
  const wire = await openWire([topics.operations], registry);
  const found: Operation[] = [];
  await kafka.replay({
    topics: ["operations"],
    onBatch: ({ topic, partition, messages }) => {
      for (const { value, offset } of messages)
        found.push(wire.decode(topics.operations, value, { topic, partition, offset }).data);
    },
  });
  return found.filter(({ operation_id }) => operation_id === id);
};

test("a plan says what would be read again, and touches nothing", async () => {
  const { status, body } = await plan();
  expect(status, JSON.stringify(body)).toBe(200);
  expect(body).toMatchObject({ move: "rewind", nodes: ["ledger"], records: 80, problem: null });
  expect(body.partitions).toEqual([
    { topic: TOPIC, partition: 0, from: 0, to: 50 },
    { topic: TOPIC, partition: 1, from: 0, to: 30 },
  ]);
  expect(body.consequences.join("\n")).toMatch(/ledger writes the same rows again/);
  expect(Date.parse(body.expires_at) - Date.now()).toBeGreaterThan(590_000);
  expect((await owner.query("select from group_holds")).rowCount).toBe(0);
  expect((await owner.query("select from moves")).rowCount).toBe(0);
});

test("a planned job is accepted, held, read again and recorded with the user who requested it", async () => {
  const { body: planned } = await plan();
  const asked = await apply(planned.plan_token);
  expect([asked.status, asked.body.status]).toEqual([202, "queued"]);
  const { id } = asked.body;
  expect(asked.headers.get("location")).toBe(`/api/operations/${id}`);
  const keeper = openKeeper();
  try {
    expect(await keeper.value.work(atWork)).toBe(1);
    await isReleased(id);
    const going = await show(id);
    expect(going).toMatchObject({ status: "running", actor: "admin@demo.tributary.test", reason: "a row was lost" });
    expect(going.partitions.map(({ at }: { at: number }) => at)).toEqual([0, 0]);
    await readTo(20, 30);
    expect((await show(id)).partitions.map(({ at }: { at: number }) => at)).toEqual([20, 30]);
    const held = (await ask("/api/groups", { token })).body.data.find(({ group }: any) => group === GROUP);
    expect(held.hold).toMatchObject({ operation: id, kind: "rewind", actor: "admin@demo.tributary.test" });
    await readTo(50, 30);
    expect(await isOver(id)).toMatchObject({ status: "completed", verdict: expect.stringMatching(/read again/) });
    await until("the group is free", 30_000, async () => {
      if ((await owner.query("select from group_holds")).rowCount !== 0) throw new Error("held");
    });
  } finally {
    await keeper.stop();
  }
  expect((await audited(id)).map(({ phase, actor, kind }) => [kind, phase, actor])).toEqual([
    ["rewind", "started", "admin@demo.tributary.test"],
    ["rewind", "succeeded", "admin@demo.tributary.test"],
  ]);
  const audit = await ask(`/api/audit?entity=operation:${id}`, { token });
  expect(audit.body.data[0]).toMatchObject({ action: "operation.asked", actor: "admin@demo.tributary.test" });
  const list = await ask("/api/operations?status=completed&move=rewind", { token });
  expect(list.body.data.map((one: any) => one.id)).toEqual([id]);
});

test("a keeper that is stopped leaves the move to another, which goes on and begins nothing again", async () => {
  const { id } = (await apply((await plan()).body.plan_token)).body;
  const first = openKeeper();
  await first.value.work(atWork);
  await isReleased(id);
  await first.stop();
  expect((await show(id)).status).toBe("running");
  await readTo(50, 30);
  const second = openKeeper();
  try {
    await until("the other keeper has taken it", 30_000, async () => {
      if ((await second.value.work(atWork)) !== 1) throw new Error("not yet");
    });
    expect((await isOver(id)).status).toBe("completed");
  } finally {
    await second.stop();
  }
  // If the offsets had been set back twice, they would be where the second keeper put them.
  expect(await admin.committed(GROUP, TOPIC)).toEqual(
    new Map([
      [0, 50],
      [1, 30],
    ]),
  );
  expect((await audited(id)).map(({ phase }) => phase)).toEqual(["started", "succeeded"]);
});

test("a keeper that was taken for dead ends nothing: the one that took over does", async () => {
  const { id } = (await apply((await plan()).body.plan_token)).body;
  const [first, second] = [openKeeper(), openKeeper()];
  try {
    await first.value.work(atWork);
    await isReleased(id);
    await owner.query("update moves set fence = fence + 1, lease_until = clock_timestamp() + interval '4 seconds'");
    await readTo(50, 30);
    await until("the other keeper has taken it", 20_000, async () => {
      if ((await second.value.work(atWork)) !== 1) throw new Error("not yet");
    });
    expect(await isOver(id)).toMatchObject({ status: "completed" });
  } finally {
    await Promise.all([first.stop(), second.stop()]);
  }
  expect((await owner.query("select from group_holds")).rowCount).toBe(0);
});

test("a hold that outlived the end of its move is ended by the next keeper", async () => {
  const { id } = (await apply((await plan()).body.plan_token)).body;
  await owner.query(
    `update moves set status = 'completed', finished_at = clock_timestamp(), is_held = true,
      lease_until = clock_timestamp() - interval '1 second'`,
  );
  await owner.query(
    `insert into group_holds (group_name, operation_id, kind, actor, released_at)
      values ($1, $2, 'rewind', 'ana', clock_timestamp())`,
    [GROUP, id],
  );
  const keeper = openKeeper();
  try {
    expect(await keeper.value.work(atWork)).toBe(0);
  } finally {
    await keeper.stop();
  }
  expect((await owner.query("select from group_holds")).rowCount).toBe(0);
});

test("a move whose group was released by hand is not begun again", async () => {
  const { id } = (await apply((await plan()).body.plan_token)).body;
  const first = openKeeper();
  await first.value.work(atWork);
  await isReleased(id);
  await first.stop();
  await owner.query("delete from group_holds");
  const second = openKeeper();
  try {
    await second.value.work(atWork);
    expect(await isOver(id)).toMatchObject({ status: "refused", verdict: expect.stringMatching(/released by hand/) });
  } finally {
    await second.stop();
  }
});

test("a plan is good once, for its user, and for ten minutes", async () => {
  const { body: planned } = await plan();
  const foreign = await apply(planned.plan_token, otherToken);
  expect([foreign.status, foreign.body.errors[0]]).toMatchObject([
    400,
    { pointer: "/plan_token", code: "bad_plan_token" },
  ]);
  const [body, mac] = planned.plan_token.split(".");
  const other = JSON.parse(Buffer.from(body, "base64url").toString()) as MovePlanToken;
  const forged = Buffer.from(JSON.stringify({ ...other, move: { ...rewind, target: "settle" } })).toString("base64url");
  for (const bad of [
    `${forged}.${mac}`,
    body,
    `${body}.`,
    `${planned.plan_token}.${mac}`,
    `${planned.plan_token}=`,
    ".",
  ])
    expect((await apply(bad)).body.errors?.[0]?.code, bad).toBe("bad_plan_token");
  const key = { "idempotency-key": `plan-${Date.now()}` };
  const first = await apply(planned.plan_token, token, key);
  expect(first.status).toBe(202);
  const again = await apply(planned.plan_token);
  expect([again.status, again.body.code, again.body.operation_id]).toEqual([409, "plan_used", first.body.id]);
  expect((await apply(planned.plan_token, token, key)).body).toEqual(first.body);
  const keys = [derive(env.TRIBUTARY_SECRET!.split(",")[0]!, "api.plan")];
  const expired = planToken(keys, { ...other, plan_id: crypto.randomUUID(), expires_at: Date.now() - 1 });
  expect((await apply(expired)).body.code).toBe("plan_expired");
});

test("of two admins at once one moves the group, and the other is asked to plan again", async () => {
  const [mine, other] = [await plan(), await plan(rewind, otherToken)];
  const answers = await Promise.all([apply(mine.body.plan_token), apply(other.body.plan_token, otherToken)]);
  expect(answers.map(({ status }) => status).sort()).toEqual([202, 409]);
  expect(answers.find(({ status }) => status === 409)!.body.code).toBe("plan_outdated");
  expect((await owner.query("select from moves")).rowCount).toBe(1);
  const third = await plan();
  expect([third.body.plan_token, third.body.problem]).toEqual([null, expect.stringMatching(/is not over/)]);
});

test("a state that has moved on is a conflict: offsets, a hold, a revision", async () => {
  const outdated = async (change: () => Promise<unknown>) => {
    const { plan_token } = (await plan()).body;
    await change();
    const { status, body } = await apply(plan_token);
    expect([status, body.code], JSON.stringify(body)).toEqual([409, "plan_outdated"]);
    expect((await owner.query("select from moves")).rowCount).toBe(0);
  };
  await outdated(() => readTo(50, 0));
  await readTo(50, 30);
  await outdated(() =>
    owner.query(
      "insert into group_holds (group_name, operation_id, kind, actor) values ($1, 'op_x', 'relearn', 'ana')",
      [GROUP],
    ),
  );
  const held = await plan();
  expect([held.body.plan_token, held.body.problem]).toEqual([null, expect.stringMatching(/held by op_x \(relearn\)/)]);
});

test("what cannot be planned says where and why", async () => {
  const fault = async (body: object) => {
    const { status, body: answer } = await plan(body);
    return [status, answer.errors?.[0]?.pointer, answer.errors?.[0]?.code];
  };
  expect(await fault({ ...rewind, target: "nowhere" })).toEqual([400, "/target", "unknown_target"]);
  expect(await fault({ move: "relearn", target: "ledger", reason: "x" })).toEqual([400, "/target", "unknown_target"]);
  expect(await fault({ ...rewind, from: "2126-01-01T00:00:00Z" })).toEqual([400, "/from", "bad_range"]);
  expect((await fault({ ...rewind, from: "2026-01-01T00:00:00" })).slice(0, 2)).toEqual([400, "/from"]);
  expect((await fault({ ...rewind, move: "rewrite" })).slice(0, 2)).toEqual([400, "/move"]);
  expect((await fault({ ...rewind, group: "x" })).slice(1)).toEqual(["/group", "unknown_field"]);
  expect((await fault({ ...rewind, reason: "" })).slice(0, 2)).toEqual([400, "/reason"]);
  expect((await ask("/api/operations/op_00000000-0000-4000-8000-000000000000", { token })).status).toBe(404);
  const never = await plan({ ...rewind, target: "conversions" });
  expect([never.status, never.body.plan_token]).toEqual([200, null]);
});

test("plans that are refused take no answer from those that are good", async () => {
  const answers = await Promise.all(
    Array.from({ length: 6 }, () => [plan({ ...rewind, target: "nowhere" }), plan()]).flat(),
  );
  expect(answers.map(({ status }) => status)).toEqual(Array(6).fill([400, 200]).flat());
});

test("a viewer reads the groups without addresses and names, and moves nothing", async () => {
  await owner.query(
    "insert into group_holds (group_name, operation_id, kind, actor) values ($1, 'op_y', 'rewind', 'ana@shop.example')",
    [GROUP],
  );
  const viewer = tokens.viewer!;
  const { status, body } = await ask("/api/groups", { token: viewer });
  expect(status).toBe(200);
  const [found] = body.data.filter(({ group }: any) => group === GROUP);
  expect(found).toMatchObject({ topic: TOPIC, nodes: ["ledger"], hold: { actor: "a***@shop.example" } });
  expect((await plan(rewind, viewer)).status).toBe(403);
  expect((await ask("/api/operations", { token: viewer })).status).toBe(403);
});
