// Answers what events have in common: read in bulk from the sets of the velocity sink, then kept
// with each event, first answer for good.
import type { Redis } from "ioredis";
import { type HintRoom, isFull, roomWithoutBound } from "../../../infra/redis/room.ts";
import type { IdentityClickAsked, IdentityClicks } from "../../../processors/attribute/identity-clicks.ts";
import type { HintAsked, Hints } from "../../../processors/score/hints.ts";
import type { FraudHints } from "../../../schemas/generated.ts";
import { hintLifetimeSeconds, sets, velocityKey } from "../../../sinks/velocity/table.ts";

type Command = readonly [string, ...(string | number)[]];

/**
 * One round trip; the first command that failed is thrown, but what a full Redis did not write is
 * given to `onFull`, and answered by null.
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

/** Where answers are kept. */
interface HintStore {
  readonly redis: Redis;
  readonly prefix: string;
  readonly room: HintRoom;
}

interface HintQuestion {
  readonly client_id: number;
  readonly event_id: string;
}

/** How a question is answered for the first time. */
interface HintSource<Question> {
  /** What is read for a question. */
  readonly reads: (question: Question) => readonly Command[];
  /** The answers to those that had none, of what was read for them. */
  readonly answersOf: (
    missing: readonly Question[],
    found: readonly (readonly unknown[])[],
  ) => readonly string[] | Promise<readonly string[]>;
}

/**
 * What was answered before, and for the others what is found now: stored only where nothing is yet,
 * so that of two owners of a partition both go on with the first one's answer. What is found is
 * read together with what was answered, for nearly every event is asked about once. Where there is
 * no room the answer is given and not kept.
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
 * The view "hints" of a worker. Throws while Redis is away: the step is tried again, for an answer
 * that was not kept would not stand.
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
          // Itself left out: an event that comes again finds itself there already.
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
 * Devices of a person that are asked for their clicks; no person has more, and a shared account
 * must not make a batch slow.
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
      // Of two clicks at one moment the lower id, so that the order of devices does not show.
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
