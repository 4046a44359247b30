// Law C4 by a model: with any failures, kills, duplicates and repeated reads, every refused record
// is one letter in one state, and every event is stored once.
import fc from "fast-check";
import { expect, test } from "vitest";
import { letterTopics } from "../../edges/dead-letters.ts";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { placeOf } from "../../infra/kafka/kafka.ts";
import { confirmReprocessed, INDEX_GROUP } from "../../modules/log/dead-letters/confirm-reprocessed.ts";
import { failureOf, letterSources } from "../../modules/log/dead-letters/failure.ts";
import { indexing } from "../../modules/log/dead-letters/index-letters.ts";
import { letterStates } from "../../modules/log/dead-letters/letter.ts";
import { type RetryPorts, sendDue } from "../../modules/log/dead-letters/retry.ts";
import { hostsOf } from "../../modules/log/groups/hosts.ts";
import type { EventAttributed, EventReceived } from "../../schemas/generated.ts";
import { deadLetterOf } from "../../stream/dead-letters.ts";
import type { OutputMessage } from "../../stream/messages.ts";
import { inMemoryLog } from "../../stream/testing/in-memory-log.ts";
import { UnreadableRecord } from "../../stream/wire.ts";
import { topics } from "../../topics.ts";
import { pipeline } from "../../topology.ts";
import { attributed, noon, received, recorded } from "../support/builders.ts";
import { inMemoryLetters } from "../support/in-memory-letters.ts";

const PARTITIONS = 2;
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const sum = (counts: Iterable<number>): number => [...counts].reduce((all, one) => all + one, 0);

/**
 * A reader of the raw log, which passes records on without headers, and a sink after it. Each
 * refuses what the test says, until it is fixed.
 */
const world = (random: () => number) => {
  const wire = inMemoryWire(letterSources);
  const names = ["events.raw", "events.attributed", ...Object.values(letterTopics)];
  const log = inMemoryLog(Object.fromEntries(names.map((name) => [name, PARTITIONS])));
  const index = inMemoryLetters(random);
  const committed = new Map<string, number[]>();
  const at = (group: string, topic: string): number[] => {
    const key = `${group} ${topic}`;
    const known = committed.get(key) ?? Array.from({ length: PARTITIONS }, () => 0);
    committed.set(key, known);
    return known;
  };
  const refused = { enrich: new Set<string>(), analytics: new Set<string>() };
  const stored = new Map<string, number>();
  let now = noon;
  let nextId = 0;
  /** Effects until the process dies; 0 is the next one. */
  let diesIn: number | null = null;
  const effect = (): void => {
    if (diesIn === null) return;
    if (diesIn === 0) {
      diesIn = null;
      throw new Error("killed");
    }
    diesIn -= 1;
  };
  const letter = (
    stage: string,
    code: string,
    topic: string,
    partition: number,
    message: { offset: number; key: Buffer | null; value: Buffer | null; headers: any },
    source = "batch",
  ) =>
    deadLetterOf(
      {
        to: source === "pixel" ? "pixel.dlq" : "s2s.dlq",
        stage,
        code,
        message: code,
        position: { topic, partition, offset: message.offset },
        key: message.key,
        value: message.value,
        headers: message.headers,
      },
      now,
    );

  /** One batch of one partition: outputs, then the offset. */
  const read = (stage: "enrich" | "analytics", partition: number, most: number): void => {
    const topic = stage === "enrich" ? topics.eventsRaw : topics.eventsAttributed;
    const next = at(`tributary.${stage}`, topic.name);
    const messages = log.read(topic.name, partition, next[partition]!, most);
    const outputs: OutputMessage[] = [];
    const rows: string[] = [];
    for (const message of messages) {
      try {
        const { data } = wire.decode<any>(topic as never, message.value, {
          topic: topic.name,
          partition,
          offset: message.offset,
        });
        const event: EventReceived = stage === "enrich" ? data : (data as EventAttributed).event;
        if (refused[stage].has(event.event_id))
          outputs.push(letter(stage, "refused_by_store", topic.name, partition, message, event.source));
        else if (stage === "analytics") rows.push(event.event_id);
        else {
          const value = Buffer.from(
            wire.encode(topics.eventsAttributed, recorded(topics.eventsAttributed, attributed(event)), null),
          );
          outputs.push({ topic: "events.attributed", key: message.key, value });
        }
      } catch (error) {
        if (!(error instanceof UnreadableRecord)) throw error;
        outputs.push(letter(stage, error.code, topic.name, partition, message));
      }
    }
    for (const row of rows) stored.set(row, (stored.get(row) ?? 0) + 1);
    effect();
    log.append(outputs);
    effect();
    next[partition] = Math.max(next[partition]!, next[partition]! + messages.length);
  };
  const readIndex = async (topic: string, partition: number, most: number): Promise<void> => {
    const next = at(INDEX_GROUP, topic);
    const messages = log.read(topic, partition, next[partition]!, most);
    if (messages.length === 0) return;
    await indexing(wire, async (failures) => {
      effect();
      await index.index(failures);
    })(
      { topic, partition, messages: messages.map((message) => ({ ...message, appendedAt: now })) },
      {
        commit: async (offset) => {
          effect();
          next[partition] = offset;
        },
        heartbeat: async () => undefined,
        isCurrent: () => true,
      },
    );
  };
  const ports: RetryPorts = {
    claims: {
      claim: index.claim,
      sent: async (letters, when) => {
        effect();
        await index.sent(letters, when);
      },
      park: index.park,
      discard: index.discard,
    },
    pick: async (places) =>
      new Map(places.map((place) => [placeOf(place), log.read(place.topic, place.partition, place.offset, 1)[0]!])),
    produce: async (messages) => {
      effect();
      log.append(messages);
    },
    wire,
    readmit: async () => undefined,
    hides: async () => undefined,
    clock: () => now,
  };
  const see = confirmReprocessed(pipeline, {
    admin: {
      watermarks: async (topic) =>
        Array.from({ length: log.partitions(topic) }, (_, partition) => ({
          partition,
          low: 0,
          high: log.read(topic, partition, 0, Number.MAX_SAFE_INTEGER).length,
        })),
      committed: async (group, topic) => new Map(at(group, topic).entries()),
    },
    hosts: async () =>
      hostsOf(
        pipeline,
        [
          { group: "tributary.enrich", topic: "events.raw", nodes: ["enrich", "score", "attribute"] },
          { group: "tributary.analytics", topic: "events.attributed", nodes: ["analytics", "product-sales"] },
        ],
        () => true,
      ),
    underWay: index.underWay,
    passed: (letters) => index.passed(letters, now),
  });
  /** Dies at the n-th effect of the work (null: never). Its successor begins without its memory. */
  const surviving = async (dies: number | null, work: () => Promise<unknown> | unknown): Promise<void> => {
    diesIn = dies;
    try {
      await work();
    } catch (error) {
      if ((error as Error).message !== "killed") throw error;
    }
    diesIn = null;
  };

  const steps = {
    event: (isRefused: "enrich" | "analytics" | null, isPixel: boolean) => {
      nextId += 1;
      const event_id = `00000000-0000-8000-8000-${String(nextId).padStart(12, "0")}`;
      const event = received({ event_id, did: `d${nextId % 3}`, source: isPixel ? "pixel" : "batch" });
      if (isRefused !== null) refused[isRefused].add(event_id);
      log.append([
        {
          topic: "events.raw",
          key: `7:${event.did}`,
          value: Buffer.from(wire.encode(topics.eventsRaw, recorded(topics.eventsRaw, event), null)),
        },
      ]);
    },
    /** The same bytes as earlier records; each record is still a separate letter. */
    garbage: (isNull: boolean) =>
      log.append([{ topic: "events.raw", key: "g", value: isNull ? null : Buffer.from("garbage") }]),
    resend: (n: number) => {
      const all = log
        .all("events.raw")
        .filter(({ headers, value }) => Object.keys(headers).length === 0 && value !== null && value[0] === 0);
      if (all.length > 0)
        log.append([{ topic: "events.raw", key: all[n % all.length]!.key, value: all[n % all.length]!.value }]);
    },
    mend: (n: number) => {
      const all = [...refused.enrich, ...refused.analytics];
      for (const set of Object.values(refused)) set.delete(all[n % Math.max(1, all.length)] ?? "");
    },
    read: (stage: "enrich" | "analytics", n: number, dies: number | null) =>
      surviving(dies, () => read(stage, n % PARTITIONS, 3)),
    index: (n: number, dies: number | null) =>
      surviving(dies, () => readIndex(["s2s.dlq", "pixel.dlq"][Math.floor(n / PARTITIONS) % 2]!, n % PARTITIONS, 3)),
    /** Some time passes, so that letters are due. */
    retry: (most: number, dies: number | null) => {
      now += (most % 30) * MINUTE;
      return surviving(dies, () => sendDue(ports, 1 + (most % 4)));
    },
    see: () => see(),
    wait: (hours: number) => {
      now += (hours % 14) * HOUR + 61_000;
    },
    rewind: (n: number) => {
      const offsets = [...committed.values()][n % Math.max(1, committed.size)];
      if (offsets !== undefined) offsets[n % PARTITIONS] = Math.floor(offsets[n % PARTITIONS]! / 2);
    },
    discard: (n: number) => {
      const open = index.all().filter(({ state }) => state === "waiting" || state === "parked");
      const one = open[n % Math.max(1, open.length)];
      if (one !== undefined)
        index.change(one.letter_id, {
          state: "discarded",
          next_attempt_at: null,
          closed_at: now,
          closed_by: "me",
          close_reason: "no",
        });
    },
  };
  const quiet = async (): Promise<void> => {
    diesIn = null;
    for (
      let before = -1;
      before !== sum(names.map((name) => log.all(name).length)) + sum([...committed.values()].flat());
    ) {
      before = sum(names.map((name) => log.all(name).length)) + sum([...committed.values()].flat());
      for (let partition = 0; partition < PARTITIONS; partition += 1) {
        read("enrich", partition, 1_000);
        read("analytics", partition, 1_000);
        for (const topic of Object.values(letterTopics)) await readIndex(topic, partition, 1_000);
      }
      for (let n = 0; n < 3; n += 1) await see();
    }
  };
  return { steps, quiet, index, log, stored, refused, ports, pass: (ms: number) => (now += ms), wire };
};

type World = ReturnType<typeof world>;
type Steps = World["steps"];
const number = fc.nat(1_000);
const dies = fc.option(fc.nat(2), { freq: 3 });
const reader = fc.constantFrom("enrich" as const, "analytics" as const);
const step: fc.Arbitrary<(of: Steps) => unknown> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.tuple(fc.option(reader, { freq: 3 }), fc.boolean()).map((given) => (of: Steps) => of.event(...given)),
  },
  { weight: 1, arbitrary: fc.boolean().map((isNull) => (of: Steps) => of.garbage(isNull)) },
  { weight: 1, arbitrary: number.map((n) => (of: Steps) => of.resend(n)) },
  { weight: 1, arbitrary: number.map((n) => (of: Steps) => of.mend(n)) },
  { weight: 4, arbitrary: fc.tuple(reader, number, dies).map((given) => (of: Steps) => of.read(...given)) },
  { weight: 5, arbitrary: fc.tuple(number, dies).map((given) => (of: Steps) => of.index(...given)) },
  { weight: 5, arbitrary: fc.tuple(number, dies).map((given) => (of: Steps) => of.retry(...given)) },
  { weight: 3, arbitrary: fc.constant((of: Steps) => of.see()) },
  { weight: 1, arbitrary: number.map((n) => (of: Steps) => of.wait(n)) },
  { weight: 1, arbitrary: number.map((n) => (of: Steps) => of.rewind(n)) },
  { weight: 1, arbitrary: number.map((n) => (of: Steps) => of.discard(n)) },
);

/**
 * Every record of the dead-letter topics is a failure that is indexed once, and the letters in all
 * states add up.
 */
const expectConserved = async ({ index, log, wire }: World): Promise<void> => {
  const letters = index.all();
  const byState = letterStates.map((state) => letters.filter((letter) => letter.state === state).length);
  expect(sum(byState)).toBe(letters.length);
  const seen = new Set<string>();
  for (const topic of Object.values(letterTopics))
    for (const message of log.all(topic)) {
      const { stage, source } = await failureOf(wire, message, message, noon);
      seen.add(`${stage} ${placeOf(source)}`);
    }
  expect(index.failures(), "each failure once").toBe(seen.size);
};

test(
  "dead letters in = reprocessed + discarded + waiting + parked, whatever happens, and every event " +
    "is stored in the end",
  async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 120 }), async (steps) => {
        const made = world(() => 0.5);
        for (const one of steps) await one(made.steps);
        await made.quiet();
        await expectConserved(made);
        const discarded = new Set(
          made.index
            .all()
            .flatMap(({ state, event_id }) => (state === "discarded" && event_id !== null ? event_id : [])),
        );
        // Every fault is fixed, and the keeper continues without help.
        for (const set of Object.values(made.refused)) set.clear();
        for (
          let rounds = 0;
          made.index.all().some(({ state }) => state === "waiting" || state === "retrying");
          rounds += 1
        ) {
          expect(rounds).toBeLessThan(20);
          made.pass(15 * HOUR);
          while ((await sendDue(made.ports, 100)) > 0);
          await made.quiet();
        }
        await expectConserved(made);
        const ids = new Set(
          made.log
            .all("events.raw")
            .flatMap(({ value }) =>
              value !== null && value[0] === 0
                ? made.wire.decode(topics.eventsRaw, value, { topic: "events.raw", partition: 0, offset: 0 }).data
                    .event_id
                : [],
            ),
        );
        for (const id of ids) if (!discarded.has(id)) expect(made.stored.has(id), `${id} is stored`).toBe(true);
        for (const { event_id, state } of made.index.all())
          expect(event_id === null ? ["parked", "discarded"] : ["reprocessed", "parked", "discarded"]).toContain(state);
      }),
      { numRuns: 200 },
    );
  },
);

test("a keeper that is killed between sending and marking sends again, and the letter is still one", async () => {
  const made = world(() => 0);
  made.steps.event("enrich", false);
  await made.quiet();
  made.steps.mend(0);
  made.pass(2 * 60_000);
  const killed = {
    ...made.ports,
    claims: { ...made.ports.claims, sent: async () => Promise.reject(new Error("killed")) },
  };
  await expect(sendDue(killed, 10)).rejects.toThrow("killed");
  await made.quiet();
  expect(made.index.all().map(({ state }) => state)).toEqual(["retrying"]);
  expect(await sendDue(made.ports, 10), "the lease has not ended").toBe(0);
  made.pass(60_000);
  expect(await sendDue(made.ports, 10)).toBe(1);
  await made.quiet();
  expect(made.index.all()).toMatchObject([{ state: "reprocessed", attempts: 0 }]);
  expect(made.stored.size).toBe(1);
  expect(made.log.all("events.raw")).toHaveLength(3);
});

test("a retried letter is not called passed while a reader, or the index, is behind", async () => {
  const made = world(() => 0);
  made.steps.event("analytics", false);
  await made.quiet();
  made.pass(2 * 60_000);
  await sendDue(made.ports, 10);
  for (let n = 0; n < 4; n += 1) {
    await made.steps.see();
    expect(made.index.all()[0]!.state).toBe("retrying");
    // The raw log is read, then the sink refuses the event again. Only then does the index read the
    // first failure.
    if (n === 0) for (const partition of [0, 1]) await made.steps.read("enrich", partition, null);
    if (n === 1) for (const partition of [0, 1]) await made.steps.read("analytics", partition, null);
  }
  for (let n = 0; n < 6; n += 1) await made.steps.index(n, null);
  await made.quiet();
  expect(made.index.all()).toMatchObject([{ state: "waiting", attempts: 1 }]);
});
