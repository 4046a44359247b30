// Drives many histories side by side through the real stages, and compares each result with the
// oracle.
import { inMemoryWire } from "../../../infra/avro/wire.ts";
import { orderMemory } from "../../../processors/settle/memory.ts";
import { letterHeaders } from "../../../stream/dead-letters.ts";
import type { Topology } from "../../../stream/flow.ts";
import { inMemory } from "../../../stream/memory/in-memory.ts";
import type { Memories } from "../../../stream/memory/memory.ts";
import { type DriveSettings, drive, type TopologyDriver } from "../../../stream/testing/drive.ts";
import { topics } from "../../../topics.ts";
import { pipeline } from "../../../topology.ts";
import { backfillClaim } from "./backfill.ts";
import type { Answers, History } from "./history.ts";
import { lookedUp } from "./look-up.ts";
import { answersTo } from "./oracle.ts";
import { inSteps, isOfHistory, knownTo, moneyStages, publishedBy, readAnswers, type Written } from "./real.ts";
import { reprocessedAsIs } from "./reprocess.ts";

const senderOf = (data: any): { clientId: number; event: string } => {
  const event = data.event ?? data.attributed?.event ?? data;
  return { clientId: event.client_id, event: event.sender_event_id ?? event.event_id };
};
type Read = Pick<TopologyDriver, "messages" | "read" | "wire">;
const lettersOf = (driven: Read): Written["letters"] =>
  ["clicks.dlq", "pixel.dlq", "s2s.dlq"].flatMap((name) =>
    driven.messages(name).map(({ value, headers }) => {
      const from = String(headers[letterHeaders.topic]);
      const topic = Object.values(topics).find((one) => one.name === from)!;
      const { data } = driven.wire.decode<any>(topic as any, value, { topic: from, partition: 0, offset: 0 });
      return { ...senderOf(data), code: String(headers[letterHeaders.code]) };
    }),
  );

/** Everything that the log holds of these histories. */
export const writtenIn = (driven: Read): Written => ({
  claims: driven.read(topics.claims).map(({ data }) => data),
  conversions: driven.read(topics.conversions).map(({ data }) => data),
  rows: driven.read(topics.eventsAttributed).map(({ data }) => data),
  entries: driven.read(topics.ledgerEntries).map(({ data }) => data),
  letters: lettersOf(driven),
});

/** The pipeline, in which an order with more lines than that is stored in parts. */
export const inParts = (mostTogether: number): Topology => ({
  ...pipeline,
  nodes: pipeline.nodes.map((node) =>
    node.is === "stage" && node.name === "settle" ? { ...node, memory: orderMemory(mostTogether) } : node,
  ),
});

/**
 * The claims that the jobs of a step send, which read the memory of settle first, in the order in
 * which they are sent. The n-th refunds that the look-ups move are sent together.
 */
export const movesOf = async (
  step: ReturnType<typeof inSteps>[number],
  from: number,
  { durable, read, wire, messages }: Pick<Memories, "durable"> & Pick<TopologyDriver, "read" | "wire" | "messages">,
) => {
  const backfilled = await Promise.all(
    step.flatMap(([one, n]) => (one.topic === "backfill" ? [backfillClaim(durable, one, from + n)] : [])),
  );
  const reprocessed = await Promise.all(
    step.flatMap(([one]) =>
      one.topic === "reprocess" ? [reprocessedAsIs({ durable, wire, messages }, one.asked, one.clientId)] : [],
    ),
  );
  const decisions = [...backfilled.flatMap((one) => one ?? []), ...reprocessed.flat()];
  const looks = step.filter(([{ topic }]) => topic === "look-up");
  if (looks.length === 0) return [decisions];
  const [claims, rows] = [topics.claims, topics.eventsAttributed].map((topic) =>
    read<any>(topic).map(({ data }) => data),
  );
  const moves = await Promise.all(
    looks.map(async ([one, n]) => {
      const at = "receivedAt" in one ? one.receivedAt : 0;
      const found = await lookedUp({ durable, claims: claims!, rows: rows! }, isOfHistory(from + n), at);
      return found.map((refund) => refund.map((data) => ({ data, at, receivedAt: at })));
    }),
  );
  const most = Math.max(...moves.map((all) => all.length));
  return [decisions, ...Array.from({ length: most }, (_, n) => moves.flatMap((all) => all[n] ?? []))];
};

/**
 * The n-th happening of every history is sent at once, and processed to its end before the next.
 */
export const driven = async (
  histories: readonly History[],
  from = 0,
  topology: Topology = pipeline,
  settings: Pick<DriveSettings, "memories" | "inOrder"> = {},
) => {
  const read = knownTo(histories, from);
  const { memories = { fast: inMemory("fast"), durable: inMemory("durable") } } = settings;
  const log = drive(topology, { wire: inMemoryWire, hosting: moneyStages, read, batch: 1_000, ...settings, memories });
  const published = histories.map((history, n) => publishedBy(history, from + n));
  for (const step of inSteps(published)) {
    const scored = step.flatMap(([one]) => (one.topic === "scored" ? one : []));
    const claims = step.flatMap(([one]) => (one.topic === "claims" ? one : []));
    if (scored.length > 0) await log.send(topics.eventsScored, ...scored);
    if (claims.length > 0) await log.send(topics.claims, ...claims);
    for (const moves of await movesOf(step, from, { ...memories, ...log }))
      if (moves.length > 0) await log.send(topics.claims, ...moves);
  }
  return { log, published };
};
export const answersOfReal = async (
  histories: readonly History[],
  topology: Topology = pipeline,
): Promise<readonly Answers[]> => {
  const { log, published } = await driven(histories, 0, topology);
  return readAnswers(histories, published, writtenIn(log));
};

const readable = (_: string, value: unknown): unknown =>
  typeof value === "bigint"
    ? `${value}n`
    : typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value;
export const printed = (value: unknown): string => JSON.stringify(value, readable, 1);

export interface Difference {
  readonly history: History;
  readonly expected: Answers;
  readonly got: Answers;
}

/** The histories for which the oracle has another answer. */
export const differencesOf = async (
  histories: readonly History[],
  real?: readonly Answers[],
): Promise<readonly Difference[]> => {
  const answers = real ?? (await answersOfReal(histories));
  return histories.flatMap((history, n) => {
    const expected = answersTo(history);
    const got = answers[n]!;
    return printed(expected) === printed(got) ? [] : { history, expected, got };
  });
};

/** The smallest history that still differs, without happenings and contracts that do not matter. */
export const shrunk = async (difference: Difference): Promise<Difference> => {
  let smallest = difference;
  for (let isSmaller = true; isSmaller; ) {
    isSmaller = false;
    const { history } = smallest;
    const without = <T>(all: readonly T[], n: number): readonly T[] => all.filter((_, at) => at !== n);
    const candidates: readonly History[] = [
      ...history.happenings.map((_, n) => ({ ...history, happenings: without(history.happenings, n) })),
      ...history.contracts.map((_, n) => ({ ...history, contracts: without(history.contracts, n) })),
    ];
    for (const candidate of candidates) {
      const [found] = await differencesOf([candidate]).catch(() => []);
      if (found === undefined) continue;
      smallest = found;
      isSmaller = true;
      break;
    }
  }
  return smallest;
};
