// How many recordings may begin, on a real Postgres: what an address, a network and senders without
// a ticket take of a client's day, and what is kept of their addresses.
import type pg from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { networkOf, senderOf } from "../../infra/http/sender.ts";
import { type Chunk, chunkIn } from "../../modules/intake/recordings/chunk.ts";
import { purgeRecordings } from "../../modules/intake/recordings/purge-recordings.ts";
import { type NotTaken, recordingLimits, storeChunk } from "../../modules/intake/recordings/recording-store.ts";
import type { FreshDatabase } from "../support/fresh-database.ts";
import { inMemoryObjects } from "../support/in-memory-objects.ts";
import { keyring } from "../support/pixel-host.ts";
import { newVisit, recordingClients } from "../support/recording-clients.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const objects = inMemoryObjects();
let CLIENT = 0;
let OTHER = 0;
let database: FreshDatabase;
let pool: pg.Pool;
let now = Date.UTC(2026, 10, 1, 12);
beforeAll(async () => {
  const made = await recordingClients();
  ({ database, pool } = made);
  [CLIENT, OTHER] = made.clients;
});
afterAll(() => database.drop());
beforeEach(async () => {
  // Each test has days of its own.
  now += 200 * DAY;
  await purgeRecordings({ pool, objects }, now);
});

/** What a browser sends of a visit, and from where. */
interface ChunkPost {
  readonly address: string;
  readonly hasTicket?: boolean;
  readonly sid?: string;
  readonly seq?: number;
  readonly client?: number;
  readonly limits?: Partial<typeof recordingLimits>;
}
const chunkOf = (cid: number, sid: string, seq: number): Chunk =>
  chunkIn(
    Buffer.from(
      JSON.stringify({
        ...{ cid, did: "any", sid, page: "0123456789abcdef", seq, consent: 0xff },
        events: [{ type: 4, timestamp: now, data: {} }],
      }),
    ),
  );
const send = ({ address, hasTicket = true, sid = newVisit(), seq = 0, client = CLIENT, limits = {} }: ChunkPost) =>
  storeChunk(
    { pool, objects, keyring, limits: { ...recordingLimits, ...limits } },
    {
      ...{ chunk: chunkOf(client, sid, seq), device: "d".repeat(64), mask: 0xff, receivedAt: now },
      ...{ sender: senderOf(address), network: networkOf(address), hasTicket },
    },
  );
/** How often each answer came, "taken" for a stored chunk. */
const tally = async (sent: readonly Promise<NotTaken | undefined>[]): Promise<Readonly<Record<string, number>>> => {
  const counts: Record<string, number> = {};
  for (const answer of await Promise.all(sent)) counts[answer ?? "taken"] = (counts[answer ?? "taken"] ?? 0) + 1;
  return counts;
};
const times = <T>(count: number, of: (n: number) => T): readonly T[] => Array.from({ length: count }, (_, n) => of(n));
/** One after another, for tests that send more than there are connections. */
const inTurn = async (count: number, of: (n: number) => Promise<NotTaken | undefined>) => {
  const answers: Promise<NotTaken | undefined>[] = [];
  for (let n = 0; n < count; n += 1) {
    const answer = await of(n);
    answers.push(Promise.resolve(answer));
  }
  return tally(answers);
};
const sendersKept = async () =>
  (await database.adminPool.query<{ sender: Buffer; visits: number }>("select sender, visits from recording_senders"))
    .rows;

describe("an address", () => {
  const address = "198.51.100.7";

  test("begins 30 visits of a client in an hour, also with many at once, and 30 more in the next", async () => {
    expect(await tally(times(40, () => send({ address })))).toEqual({ taken: 30, too_many_of_address: 10 });
    expect(await send({ address, client: OTHER })).toBeUndefined();
    expect(await send({ address: "198.51.100.8" })).toBeUndefined();
    now += HOUR;
    expect(await inTurn(31, () => send({ address }))).toEqual({ taken: 30, too_many_of_address: 1 });
  });

  test("of IPv6 is the whole /64, which one sender has", async () => {
    const of = (n: number) => send({ address: `2001:db8:1:2::${n + 1}` });
    expect(await inTurn(31, of)).toEqual({ taken: 30, too_many_of_address: 1 });
    expect(await send({ address: "2001:db8:1:3::1" })).toBeUndefined();
  });

  test("begins 3 in an hour without a ticket, and others with one", async () => {
    const of = () => send({ address, hasTicket: false });
    expect(await inTurn(5, of)).toEqual({ taken: 3, ticket_needed: 2 });
    expect(await send({ address })).toBeUndefined();
    now += HOUR;
    expect(await of()).toBeUndefined();
  });

  test("goes on with a visit that it began, without a ticket and from another network", async () => {
    const sid = newVisit();
    expect(await send({ address, sid })).toBeUndefined();
    await inTurn(29, () => send({ address }));
    expect(await send({ address, sid, seq: 1, hasTicket: false })).toBeUndefined();
    expect(await send({ address: "2001:db8:9::1", sid, seq: 2, hasTicket: false })).toBeUndefined();
    expect((await sendersKept()).reduce((sum, { visits: count }) => sum + count, 0)).toBe(2 * 30);
  });

  test("is counted once for a visit whose first chunks come at once", async () => {
    const sid = newVisit();
    expect(await tally(times(6, (seq) => send({ address, sid, seq })))).toEqual({ taken: 6 });
    expect((await sendersKept()).map(({ visits: count }) => count)).toEqual([1, 1]);
  });
});

describe("a client's day is not taken", () => {
  test("by made-up visits without a ticket: a tenth of it, from however many addresses", async () => {
    const limits = { visitsADay: 50, ticketlessADay: 5 };
    const stranger = (n: number) => send({ address: `10.${n}.0.1`, hasTicket: false, limits });
    expect(await inTurn(40, stranger)).toEqual({ taken: 5, ticket_needed: 35 });
    expect(await send({ address: "198.51.100.7", limits })).toBeUndefined();
    expect([recordingLimits.visitsADay, recordingLimits.ticketlessADay]).toEqual([2_000, 200]);
    now += DAY;
    expect(await send({ address: "10.0.0.1", hasTicket: false, limits })).toBeUndefined();
  });

  test("by someone with a ticket and the 65,536 /64 of a network, nor in the hours after", async () => {
    const limits = { ofNetworkADay: 5 };
    const owner = (n: number) => send({ address: `2001:db8:1:${n}::1`, limits });
    expect(await inTurn(10, owner)).toEqual({ taken: 5, too_many_of_network: 5 });
    now += 23 * HOUR;
    expect(await owner(11)).toBe("too_many_of_network");
    expect(await send({ address: "2001:db8:2::1", limits })).toBeUndefined();
    now += HOUR;
    expect(await owner(12)).toBeUndefined();
    expect(recordingLimits.ofNetworkADay).toBe(200);
  });

  test("by many tickets of many networks alone: then it is over, as before", async () => {
    const limits = { visitsADay: 4 };
    const of = (n: number) => send({ address: `10.${n}.0.1`, limits });
    expect(await inTurn(6, of)).toEqual({ taken: 4, too_many_visits: 2 });
  });
});

describe("of an address is kept", () => {
  test("a hash that no other hour has, and the keeper deletes it when it bounds nothing", async () => {
    const address = "198.51.100.7";
    await send({ address });
    const first = await sendersKept();
    expect(JSON.stringify(first)).not.toContain(address);
    expect(first.map(({ sender }) => sender.length)).toEqual([12, 12]);
    now += HOUR;
    await purgeRecordings({ pool, objects }, now);
    const network = await sendersKept();
    expect(network).toHaveLength(1);
    await send({ address });
    const hashes = (await sendersKept()).map(({ sender }) => sender.toString("hex"));
    // That of the network twice, by hours, and that of the address in this hour.
    expect([hashes.length, new Set(hashes).size]).toEqual([3, 2]);
    const known = new Set([...first.map(({ sender }) => sender.toString("hex")), ...hashes]);
    expect(known.size).toBe(3);
    now += DAY;
    await purgeRecordings({ pool, objects }, now);
    expect(await sendersKept()).toEqual([]);
  });
});
