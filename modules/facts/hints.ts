// Answers what events have in common: read in bulk from the sets of the velocity sink, then kept
// with each event, first answer for good.
import type { Redis } from "ioredis";
import { type HintRoom, isFull, roomWithoutBound } from "../../infra/redis/room.ts";
import type { IdentityClickAsked, IdentityClicks } from "../../processors/attribute/identity-clicks.ts";
import type { HintAsked, Hints } from "../../processors/score/hints.ts";
import type { FraudHints } from "../../schemas/generated.ts";
import { hintLifetimeSeconds, sets, velocityKey } from "../../sinks/velocity/table.ts";

/**
 * One round trip; the first command that failed is thrown, but what a full Redis did not write is
 * given to `onFull`, and answered by null.
 */
const answers = async (
  redis: Redis,
  commands: readonly (readonly [string, ...(string | number)[]])[],
  onFull?: () => void,
): Promise<readonly unknown[]> =>
  commands.length === 0
    ? []
    : ((await redis.pipeline(commands.map((command) => [...command])).exec()) ?? []).map(([error, answer]) => {
        if (error === null) return answer;
        if (onFull === undefined || !isFull(error)) throw error;
        onFull();
        return null;
      });

/** Where answers are kept. */
interface Kept {
  readonly redis: Redis;
  readonly prefix: string;
  readonly room: HintRoom;
}

interface Asked {
  readonly client_id: number;
  readonly event_id: string;
}

/**
 * What was answered before, and for the others what `compute` finds: stored only where nothing is
 * yet, and read back, so that of two owners of a partition both go on with the first one's answer.
 * Where there is no room the answer is given and not kept.
 */
const answeredOnce = async <Question extends Asked>(
  { redis, prefix, room }: Kept,
  asked: readonly Question[],
  compute: (asked: readonly Question[]) => Promise<readonly string[]>,
): Promise<ReadonlyMap<string, string>> => {
  if (asked.length === 0) return new Map();
  const keyOf = ({ client_id, event_id }: Question): string => `${prefix}:${client_id}:${event_id}`;
  const known = new Map<string, string>();
  const stored = (await answers(redis, [["mget", ...asked.map(keyOf)]]))[0] as (string | null)[];
  for (const [n, answer] of stored.entries()) if (answer !== null) known.set(asked[n]!.event_id, answer);
  const missing = asked.filter(({ event_id }) => !known.has(event_id));
  if (missing.length === 0) return known;
  const computed = await compute(missing);
  if (!room.has()) {
    room.shed("answers", missing.length);
    return new Map([...known, ...missing.map(({ event_id }, n) => [event_id, computed[n]!] as const)]);
  }
  const written = await answers(
    redis,
    missing.flatMap((one, n): (readonly [string, ...(string | number)[]])[] => [
      ["set", keyOf(one), computed[n]!, "EX", hintLifetimeSeconds, "NX"],
      ["get", keyOf(one)],
    ]),
    () => room.shed("answers", 1),
  );
  for (const [n, { event_id }] of missing.entries())
    known.set(event_id, (written[2 * n + 1] as string | null) ?? computed[n]!);
  return known;
};

/**
 * The view "hints" of a worker. Throws while Redis is away: the step is tried again, for an answer
 * that was not kept would not stand.
 */
export const redisHints = (redis: Redis, prefix = "tributary", room: HintRoom = roomWithoutBound): Hints => {
  const nothing = ["echo", ""] as const;
  const compute = async (asked: readonly HintAsked[]): Promise<readonly string[]> => {
    const found = await answers(
      redis,
      asked.flatMap(
        ({ client_id, event_id, at, did, address, click_id }): (readonly [string, ...(string | number)[]])[] => {
          const conversions = address === null ? null : velocityKey(prefix, sets.conversionsOf(client_id, address, at));
          const devices = click_id === null ? null : velocityKey(prefix, sets.devicesOf(client_id, click_id));
          const countries = click_id === null ? null : velocityKey(prefix, sets.countriesOf(client_id, click_id));
          return [
            conversions === null ? nothing : ["scard", conversions],
            conversions === null ? nothing : ["sismember", conversions, event_id],
            devices === null ? nothing : ["scard", devices],
            devices === null ? nothing : ["sismember", devices, did],
            countries === null ? nothing : ["zrange", countries, 0, 0],
          ];
        },
      ),
    );
    return asked.map(({ address, click_id }, n) => {
      const [conversions, hasEvent, devices, hasDevice, countries] = found.slice(5 * n, 5 * n + 5);
      const hint: FraudHints = {
        // Itself left out: an event that comes again finds itself there already.
        address_conversions: address === null ? null : (conversions as number) - (hasEvent as number),
        click_devices: click_id === null ? null : (devices as number) - (hasDevice as number),
        click_country: click_id === null ? null : ((countries as string[])[0] ?? null),
      };
      return JSON.stringify(hint);
    });
  };
  return {
    lookUp: async (asked) => {
      const texts = await answeredOnce({ redis, prefix: `${prefix}:hint`, room }, asked, compute);
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
  const compute = async (asked: readonly IdentityClickAsked[]): Promise<readonly string[]> => {
    const devices = (await answers(
      redis,
      asked.map(({ client_id, person }) => [
        "zrevrange",
        velocityKey(prefix, sets.devicesOfPerson(client_id, person)),
        0,
        devicesAsked - 1,
      ]),
    )) as readonly (readonly string[])[];
    const others = asked.map(({ did }, n) => devices[n]!.filter((other) => other !== did));
    const clicks = (await answers(
      redis,
      asked.flatMap(({ client_id, at }, n) =>
        others[n]!.map(
          (did) =>
            [
              "zrevrangebyscore",
              velocityKey(prefix, sets.clicksOf(client_id, did)),
              at,
              "-inf",
              "WITHSCORES",
              "LIMIT",
              0,
              1,
            ] as const,
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
  return {
    lookUp: async (asked) => {
      const found = await answeredOnce({ redis, prefix: `${prefix}:identity-click`, room }, asked, compute);
      return new Map([...found].filter(([, clickId]) => clickId !== ""));
    },
  };
};
