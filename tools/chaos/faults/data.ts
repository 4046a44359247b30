// Faults of data: garbage in topics, one device that causes nearly all traffic, an emptied Redis.
import { randomBytes } from "node:crypto";
import { until } from "../../../infra/runtime/timing/wait-until.ts";
import { readGroups } from "../hosting.ts";
import { GARBAGE } from "../own-letters.ts";
import { between, type Fault, pause } from "./fault.ts";

/** Every topic that a stage or a sink reads. */
const poisoned = [...new Set(readGroups.map(({ topic }) => topic))];

const garbageOf = (random: () => number): readonly { readonly what: string; readonly value: Buffer | null }[] => {
  const unknown = Buffer.concat([Buffer.from([0]), Buffer.alloc(4, 0x7f), randomBytes(20)]);
  return [
    { what: "bad magic", value: Buffer.from([9, 1, 2, 3, 4, 5, 6]) },
    { what: "unknown schema id", value: unknown },
    { what: "one byte", value: Buffer.from([0]) },
    { what: "no value", value: null },
    { what: "noise", value: randomBytes(between(random, 6, 4_000)) },
    { what: "1 MB", value: Buffer.concat([Buffer.from([7]), Buffer.alloc(1_000_000, 1)]) },
  ];
};

const poison: Fault = {
  name: "garbage in the log",
  id: "F-17",
  run: async ({ target, random }) => {
    const producer = target.kafka.producer();
    try {
      const messages = poisoned.flatMap((topic) =>
        garbageOf(random)
          .filter(() => random() < 0.6)
          .map(({ what, value }) => ({
            ...{ topic, key: `garbage-${what}-${between(random, 0, 1e6)}`, value },
            headers: { [GARBAGE]: "garbage" },
          })),
      );
      await producer.send(messages);
      return {
        took: messages.length > 0,
        what: `${messages.length} pieces in ${new Set(messages.map(({ topic }) => topic)).size} topics`,
      };
    } finally {
      await producer.close();
    }
  },
};

const heat: Fault = {
  name: "one hot device",
  id: "F-16",
  run: async ({ generator, load, random }) => {
    const before = load.acknowledged();
    generator.heat(true);
    await pause(between(random, 3_000, 8_000));
    generator.heat(false);
    const sent = load.acknowledged() - before;
    return { took: sent > 0, what: `9 of 10 page views of one device, among ${sent} events` };
  },
};

const flush: Fault = {
  name: "Redis emptied",
  id: "F-06",
  run: async ({ target, random }) => {
    const times = between(random, 1, 3);
    const sizes: number[] = [];
    for (let n = 0; n < times; n += 1) {
      await until("Redis can be emptied", 20_000, async () => {
        const size = await target.redis.dbsize();
        await target.redis.flushall();
        sizes.push(size);
      });
      await pause(between(random, 500, 2_000));
    }
    return { took: sizes.some((size) => size > 0), what: `keys before each flush: ${sizes.join(", ")}` };
  },
};

const burst: Fault = {
  name: "a burst of requests",
  id: "F-19",
  run: async ({ load, random }) => {
    const before = load.acknowledged();
    load.pace(0);
    await pause(between(random, 2_000, 5_000));
    load.pace(100);
    const { 503: unavailable = 0, 429: limited = 0 } = load.answers();
    return {
      took: load.acknowledged() > before,
      what:
        `${load.acknowledged() - before} events without a pause; so far ${unavailable} answers 503, ` +
        `${limited} answers 429`,
    };
  },
};

export const dataFaults: readonly Fault[] = [poison, heat, flush, burst];
