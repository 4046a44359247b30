// Garbage is written directly into every topic: valid records around it pass, each piece is in the
// dead letters with its own bytes and the reason, and no worker has stopped.
import { createHash, randomBytes } from "node:crypto";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { randomFrom } from "../../infra/runtime/random.ts";
import { groupsOf } from "../../modules/log/groups/hosting.ts";
import { apps } from "../../modules/running/installation/product.ts";
import { letterHeaders } from "../../stream/dead-letters.ts";
import { pipeline } from "../../topology.ts";
import { expectLaws } from "../support/e2e-laws.ts";
import { eventsOf, newSeed, openJournal, post, type SentEvent } from "../support/e2e-load.ts";
import type { Stored } from "../support/e2e-product.ts";
import { type JoinedProduct, joinProduct } from "../support/joined-product.ts";

const TOPICS = ["events.raw", "claims", "conversions", "events.attributed", "ledger.entries"];
const MEBIBYTE = 1024 * 1024;

let product: JoinedProduct;
beforeAll(async () => {
  product = await joinProduct("poison");
});
afterAll(async () => {
  // Otherwise the keeper would send it again while other files run.
  for (const code of ["not_framed", "unknown_schema", "unreadable_body", "content_hash_mismatch"])
    await product.tributary("dlq", "discard", "--code", code, "--reason", "garbage of a test", "--yes").done;
  await product?.clear();
});

interface Garbage {
  readonly what: string;
  readonly value: Buffer | null;
  readonly code: "not_framed" | "unknown_schema" | "unreadable_body" | "content_hash_mismatch";
}
const changed = (bytes: Buffer, at: number): Buffer => {
  const copy = Buffer.from(bytes);
  copy[at]! ^= 0b1;
  return copy;
};
/** The place of the content hash in a record, if its topic has one. */
const hashAt = (value: Buffer): number => {
  for (let at = 5; at < value.length - 16; at += 1) {
    const hash = createHash("sha256")
      .update(value.subarray(at + 16))
      .digest();
    if (hash.subarray(0, 16).equals(value.subarray(at, at + 16))) return at;
  }
  return -1;
};
const garbageFrom = (good: Buffer, other: Buffer): readonly Garbage[] => {
  const at = hashAt(good);
  const unknownId = Buffer.from(good);
  unknownId.writeUInt32BE(99_999_999, 1);
  return [
    { what: "bad magic", value: changed(good, 0), code: "not_framed" },
    { what: "unknown schema id", value: unknownId, code: "unknown_schema" },
    { what: "a record of another topic", value: other, code: "unreadable_body" },
    { what: "cut", value: good.subarray(0, Math.floor(good.length * 0.6)), code: "unreadable_body" },
    { what: "bytes left over", value: Buffer.concat([good, good.subarray(5)]), code: "unreadable_body" },
    { what: "nothing but the frame", value: good.subarray(0, 5), code: "not_framed" },
    { what: "one byte", value: Buffer.from([0]), code: "not_framed" },
    { what: "empty", value: Buffer.alloc(0), code: "not_framed" },
    {
      what: "1 MB",
      value: Buffer.concat([good.subarray(0, 5), Buffer.alloc(16, 0xff), randomBytes(MEBIBYTE - 21)]),
      code: "unreadable_body",
    },
    { what: "no value", value: null, code: "not_framed" },
    ...(at < 0
      ? []
      : ([
          { what: "flipped hash", value: changed(good, at), code: "content_hash_mismatch" },
          { what: "another currency", value: changed(good, good.indexOf("USD")), code: "content_hash_mismatch" },
        ] as const)),
  ];
};
/** The groups that decode what they read; the archive copies bytes without decoding. */
const readersOf = (topic: string): readonly string[] =>
  groupsOf(
    pipeline,
    apps.filter(({ module }) => module.startsWith("apps/worker/")).flatMap(({ args }) => args ?? []),
  )
    .filter(({ reads, is }) => reads.name === topic && is !== "copy")
    .map(({ name }) => name.replace("tributary.", ""));

test("garbage in every topic becomes dead letters with its own bytes, and everything around it goes on", async () => {
  const random = randomFrom(newSeed("poison"));
  const { id, token } = product.client("aurora-music");
  const next = eventsOf(random, "poison", id);
  const journal = openJournal(join(product.stack.home, "poison.journal"));
  const sent = new Map<string, SentEvent>();
  const sendGood = async (op: string): Promise<void> => {
    const events = next(100);
    for (const event of events) sent.set(event.event_id, event);
    journal.intend(op, events);
    expect(await post(product.ingestUrl, token, events)).toMatchObject({ status: 200, accepted: events.length });
    journal.end(op, "ok");
  };
  await sendGood("before");
  await product.quiet(60_000);
  const workers = ["worker-chain", "worker-money"];
  const pids = workers.map((name) => product.stack.pid(name));

  const samples = new Map<string, Buffer>();
  for (const topic of TOPICS)
    samples.set(topic, (await product.read(topic)).find(({ key }) => String(key).startsWith(`${id}:`))!.value!);
  const garbage = TOPICS.flatMap((topic, n) => {
    const pieces = garbageFrom(samples.get(topic)!, samples.get(TOPICS[(n + 1) % TOPICS.length]!)!);
    return pieces.map((piece, m) => ({ ...piece, topic, key: `garbage-${topic}-${m}` }));
  });
  // A flipped bit is recognised by a hash, which only topics of money have.
  expect(garbage.filter(({ what }) => what === "flipped hash").map(({ topic }) => topic)).toEqual([
    "claims",
    "conversions",
    "ledger.entries",
  ]);
  const producer = product.kafka.producer();
  await Promise.all([
    sendGood("during 1"),
    sendGood("during 2"),
    producer.send(garbage.map(({ topic, key, value }) => ({ topic, key, value, headers: { sent: key } }))),
  ]);
  await sendGood("after");
  await producer.close();
  await product.quiet(60_000);

  // Excludes letters of other files, and those that the keeper sent again meanwhile, a minute after
  // each failure: they carry the id of their letter.
  const letters = (await product.letters("s2s.dlq")).filter(
    ({ headers }) => headers[letterHeaders.letter] === undefined,
  );
  const described = ({ headers, key, value }: Stored) => ({
    topic: headers[letterHeaders.topic],
    stage: headers[letterHeaders.stage],
    code: headers[letterHeaders.code],
    kind: headers[letterHeaders.kind],
    attempt: headers[letterHeaders.attempt],
    sent: headers.sent,
    key: String(key),
    bytes: value === null ? null : createHash("sha256").update(value).digest("hex"),
  });
  const expected = garbage.flatMap(({ topic, key, value, code }) =>
    readersOf(topic).map((stage) => ({
      topic,
      stage,
      code,
      kind: "s2s",
      attempt: "1",
      sent: key,
      key,
      bytes: value === null ? null : createHash("sha256").update(value).digest("hex"),
    })),
  );
  const order = (list: readonly { key: string; stage: string | undefined }[]) =>
    list.toSorted((a, b) => `${a.key} ${a.stage}`.localeCompare(`${b.key} ${b.stage}`));
  expect(order(letters.map(described))).toEqual(order(expected));
  // Each letter says where the record was and what was wrong.
  const lying = new Map<string, Stored>();
  for (const topic of TOPICS)
    for (const one of await product.read(topic))
      if (one.headers.sent !== undefined && one.headers[letterHeaders.letter] === undefined)
        lying.set(one.headers.sent, one);
  for (const { headers } of letters) {
    const { partition, offset } = lying.get(headers.sent!)!;
    expect([headers[letterHeaders.partition], headers[letterHeaders.offset]]).toEqual([`${partition}`, `${offset}`]);
    expect(headers[letterHeaders.message]).not.toBe("");
    expect(headers[letterHeaders.firstFailedAt]).toMatch(/^20\d\d-.*Z$/);
  }
  for (const topic of ["clicks.dlq", "pixel.dlq"]) expect(await product.letters(topic)).toEqual([]);

  expect(workers.map((name) => product.stack.pid(name))).toEqual(pids);
  expect((await product.lags()).filter(({ lag }) => lag > 0)).toEqual([]);
  const held = await expectLaws(product, "poison", journal, sent);
  console.log(
    `${garbage.length} pieces of garbage, ${letters.length} dead letters; ${held.events} good ` +
      `events, ${held.orders} orders`,
  );
  expect(held.events).toBe(400);
}, 180_000);
