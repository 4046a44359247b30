// Looks up what events have in common. It reads the sets of the velocity sink in bulk and stores
// the first answer for each event, which then stays.
import type { Redis } from "ioredis";
import { type HintRoom, isFull, roomWithoutBound } from "../../../infra/redis/room.ts";
import type { IdentityClickAsked, IdentityClicks } from "../../../processors/attribute/facts.ts";
import type { HintAsked, Hints } from "../../../processors/score/facts.ts";
import type { FraudHints } from "../../../schemas/generated.ts";
import { hintLifetimeSeconds, sets, velocityKey } from "../../../sinks/velocity/table.ts";

type Command = readonly [string, ...(string | number)[]];

/**
 * Runs commands in one round trip and throws the first error. If a full Redis refuses a write, it
 * calls `onFull` and the answer is null.
 */
const answers = async (redis: Redis, commands: readonly Command[], onFull?: () => void): Promise<readonly unknown[]> =>
  commands.length === 0
    ? []
    : ((await redis.pipeline(commands.map((command) => [...command])).exec()) ?? []).map(([error, answer]) => {
        if (error === null) return answer;
        if (onFull === undefined || !isFull(error)) throw error;
        onFull();
        return null;
      });

/** The place where answers are stored. */
interface HintStore {
  readonly redis: Redis;
  readonly prefix: string;
  readonly room: HintRoom;
}

interface HintQuestion {
  readonly client_id: number;
  readonly event_id: string;
}

/** Answers a question for the first time. */
interface HintSource<Question> {
  /** The commands that read the data for a question. */
  readonly reads: (question: Question) => readonly Command[];
  /** The answers to the missing questions, from the data that was read for them. */
  readonly answersOf: (
    missing: readonly Question[],
    found: readonly (readonly unknown[])[],
  ) => readonly string[] | Promise<readonly string[]>;
}

/**
 * Returns stored answers, and computes and stores the missing ones. A store never overwrites, so
 * two owners of a partition use the first one's answer. Both reads go out together, because nearly
 * every event is looked up only once. Without room in Redis the answer is returned but not stored.
 */
const answeredOnce = async <Question extends HintQuestion>(
  { redis, prefix, room }: HintStore,
  asked: readonly Question[],
  { reads, answersOf }: HintSource<Question>,
): Promise<ReadonlyMap<string, string>> => {
  if (asked.length === 0) return new Map();
  const keyOf = ({ client_id, event_id }: Question): string => `${prefix}:${client_id}:${event_id}`;
  const commands = asked.map(reads);
  const [stored, ...found] = await answers(redis, [["mget", ...asked.map(keyOf)], ...commands.flat()]);
  const known = new Map<string, string>();
  const missing: Question[] = [];
  const foundOfMissing: (readonly unknown[])[] = [];
  let from = 0;
  for (const [n, question] of asked.entries()) {
    const to = from + commands[n]!.length;
    const answer = (stored as readonly (string | null)[])[n]!;
    if (answer !== null) known.set(question.event_id, answer);
    else {
      missing.push(question);
      foundOfMissing.push(found.slice(from, to));
    }
    from = to;
  }
  if (missing.length === 0) return known;
  const computed = await answersOf(missing, foundOfMissing);
  const isKept = room.has();
  if (!isKept) room.shed("answers", missing.length);
  const before = !isKept
    ? []
    : await answers(
        redis,
        missing.map((one, n) => ["set", keyOf(one), computed[n]!, "EX", hintLifetimeSeconds, "NX", "GET"]),
        () => room.shed("answers", 1),
      );
  for (const [n, { event_id }] of missing.entries())
    known.set(event_id, (before[n] as string | null | undefined) ?? computed[n]!);
  return known;
};

/**
 * The view "hints" of a worker. Throws while Redis is away, so that the step is tried again: an
 * answer that is not stored might differ next time.
 */
export const redisHints = (redis: Redis, prefix = "tributary", room: HintRoom = roomWithoutBound): Hints => {
  const ofAddress = ({ client_id, event_id, at }: HintAsked, address: string): readonly Command[] => {
    const conversions = velocityKey(prefix, sets.conversionsOf(client_id, address, at));
    return [
      ["scard", conversions],
      ["sismember", conversions, event_id],
    ];
  };
  const ofClick = ({ client_id, did }: HintAsked, click_id: string): readonly Command[] => {
    const devices = velocityKey(prefix, sets.devicesOf(client_id, click_id));
    return [
      ["scard", devices],
      ["sismember", devices, did],
      ["zrange", velocityKey(prefix, sets.countriesOf(client_id, click_id)), 0, 0],
    ];
  };
  const answering: HintSource<HintAsked> = {
    reads: (one) => [
      ...(one.address === null ? [] : ofAddress(one, one.address)),
      ...(one.click_id === null ? [] : ofClick(one, one.click_id)),
    ],
    answersOf: (missing, found) =>
      missing.map(({ address, click_id }, n) => {
        const [conversions, hasEvent] = found[n]!;
        const [devices, hasDevice, countries] = address === null ? found[n]! : found[n]!.slice(2);
        const hint: FraudHints = {
          // Excludes the event itself, which is already in the set if the event comes again.
          address_conversions: address === null ? null : (conversions as number) - (hasEvent as number),
          click_devices: click_id === null ? null : (devices as number) - (hasDevice as number),
          click_country: click_id === null ? null : ((countries as string[])[0] ?? null),
        };
        return JSON.stringify(hint);
      }),
  };
  return {
    lookUp: async (asked) => {
      const texts = await answeredOnce({ redis, prefix: `${prefix}:hint`, room }, asked, answering);
      return new Map([...texts].map(([id, text]) => [id, JSON.parse(text) as FraudHints]));
    },
  };
};

/**
 * Limits the devices of a person whose clicks are read. No real person has more, and a shared
 * account must not slow a batch.
 */
const devicesAsked = 20;

/** The view "identity-clicks" of a worker. */
export const redisIdentityClicks = (
  redis: Redis,
  prefix = "tributary",
  room: HintRoom = roomWithoutBound,
): IdentityClicks => {
  const answersOf: HintSource<IdentityClickAsked>["answersOf"] = async (missing, devices) => {
    const others = missing.map(({ did }, n) => (devices[n]![0] as readonly string[]).filter((other) => other !== did));
    const clicks = (await answers(
      redis,
      missing.flatMap(({ client_id, at }, n) =>
        others[n]!.map(
          (did): Command => [
            "zrevrangebyscore",
            velocityKey(prefix, sets.clicksOf(client_id, did)),
            at,
            "-inf",
            "WITHSCORES",
            "LIMIT",
            0,
            1,
          ],
        ),
      ),
    )) as readonly (readonly [] | readonly [string, string])[];
    let from = 0;
    return others.map((dids) => {
      const own = clicks.slice(from, from + dids.length).filter((found) => found.length > 0) as readonly (readonly [
        string,
        string,
      ])[];
      from += dids.length;
      // Of two clicks at the same time the lower id wins, so that the order of devices has no
      // effect.
      const [newest] = [...own].sort(([a, atA], [b, atB]) => Number(atB) - Number(atA) || (a < b ? -1 : 1));
      return newest?.[0] ?? "";
    });
  };
  const answering: HintSource<IdentityClickAsked> = {
    reads: ({ client_id, person }) => [
      ["zrevrange", velocityKey(prefix, sets.devicesOfPerson(client_id, person)), 0, devicesAsked - 1],
    ],
    answersOf,
  };
  return {
    lookUp: async (asked) => {
      const found = await answeredOnce({ redis, prefix: `${prefix}:identity-click`, room }, asked, answering);
      return new Map([...found].filter(([, clickId]) => clickId !== ""));
    },
  };
};
