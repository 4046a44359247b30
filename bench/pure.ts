// Measures the cost of every pure step for an event, as a multiple of JSON.parse of the same event
// in the same process: absolute times differ by machine, these ratios hardly do.
import { setImmediate } from "node:timers/promises";
import { identifyFor, pepperOf } from "../domain/device-id.ts";
import { reference } from "../domain/reference/reference.ts";
import { inMemoryWire } from "../infra/avro/wire.ts";
import { Block } from "../infra/clickhouse/block.ts";
import { readRecordBatch } from "../infra/kafka/client/fetched-records.ts";
import { type RecordFields, writeProduceRequest } from "../infra/kafka/client/record-batch.ts";
import { table } from "../infra/runtime/output.ts";
import { acceptsBatch, admitBatch } from "../processors/admit/batch.ts";
import { clickKeys, clickKeysOf, identityClicks } from "../processors/attribute/facts.ts";
import { identityKeys, identityKeysOf } from "../processors/enrich/facts.ts";
import { places, placesOf } from "../processors/enrich/places.ts";
import { hints } from "../processors/score/facts.ts";
import type { EventAttributed } from "../schemas/generated.ts";
import { eventRows } from "../sinks/analytics/rows.ts";
import { events as eventTable } from "../sinks/analytics/table.ts";
import { chain } from "../stream/chain.ts";
import type { AnyTopic, Recorded } from "../stream/flow.ts";
import { fold, type HostedStage, type StageInput } from "../stream/fold.ts";
import { partitionOf } from "../stream/partitioner.ts";
import {
  client,
  clientId,
  contract,
  longAgo,
  noon,
  partner,
  reads,
  referenceWith,
  rule,
} from "../tests/support/builders.ts";
import { topics } from "../topics.ts";
import { pipeline } from "../topology.ts";
import { bodyOf, MANY_DEVICES } from "./load/events.ts";

const SECRET = "a secret of forty characters or so, made up";
const EVENTS = 1_000;
const PARTITIONS = 12;
/** Passes of each step; the fastest counts, because other work on the machine only adds time. */
const PASSES = 5;
const ROUNDS_A_PASS = 10;
/**
 * Rounds that are not counted: V8 still collects the garbage of the step before, on threads that
 * count as this process. Right after the money steps a parse took 4.9 us instead of 1.3.
 */
const ROUNDS_BEFORE = 3;

interface Step {
  readonly name: string;
  /** Processes all events once; returns their number. */
  readonly run: () => number;
}
/** CPU microseconds an event, and their ratio to the first step. */
export interface Cost {
  readonly name: string;
  readonly us: number;
  readonly ratio: number;
}

const read = reads(
  [
    reference,
    referenceWith({
      clients: [client()],
      partners: [partner()],
      contracts: [contract({ effective_from: longAgo })],
      rules: [rule()],
    }),
  ],
  [places, placesOf(null)],
  [clickKeys, clickKeysOf([])],
  [identityKeys, identityKeysOf(SECRET)],
  [hints, { lookUp: async () => new Map() }],
  [identityClicks, { lookUp: async () => new Map() }],
);
const wire = inMemoryWire(Object.values(topics));
const nowhere = { topic: "", partition: 0, offset: 0 };
const facts = {
  clientId,
  segments: [],
  consentDefault: 255,
  isClientSide: true,
  identify: identifyFor(pepperOf(SECRET, clientId), 100_000),
};
const arrival = { receivedAt: noon, sender: String(clientId), address: "192.0.2.1", header: () => "bench" };

/** The events of a body in the form in which the log holds them. */
const admitted = (purchases: number) => {
  const { bytes } = bodyOf({ clientId, events: EVENTS, purchases, devices: MANY_DEVICES, seed: 7, now: noon });
  const all = [...admitBatch(acceptsBatch(bytes), arrival, facts)].flatMap((one) =>
    one.kind === "accepted" ? one : [],
  );
  return { bytes, events: all.map(({ id, at, data }, offset) => recorded(topics.eventsRaw, id, at, data, offset)) };
};
const recorded = (topic: AnyTopic, id: string, at: number, data: any, offset: number): Recorded<any> => ({
  id,
  key: topic.keyOf(data),
  at,
  receivedAt: noon,
  position: { topic: topic.name, partition: 0, offset },
  data,
});
const givenOf = (topic: AnyTopic, values: readonly Buffer[]): readonly StageInput[] =>
  values.map((value, offset) => ({
    event: wire.decode(topic, value, { topic: topic.name, partition: 0, offset }),
    source: { offset, key: null, value, headers: {}, appendedAt: noon },
  }));
const encoded = (topic: AnyTopic, events: readonly Recorded<any>[]): readonly Buffer[] =>
  events.map((event) => wire.encode(topic, event, nowhere));

/**
 * Runs a stage over events without memory: facts, state, processor, and the encoding of its output.
 */
const folding = async (
  hosted: HostedStage,
  given: readonly StageInput[],
): Promise<{ readonly step: Step; readonly next: ReturnType<typeof fold> }> => {
  const { stage } = hosted;
  const factsOf =
    stage.facts === undefined
      ? () => null
      : await stage.facts.load(
          given.map(({ event }) => event),
          read,
        );
  const run = () => fold(hosted, given, factsOf, null, wire);
  return { step: { name: stage.name, run: () => run().counts.events }, next: run() };
};

const messagesOf = (events: readonly Recorded<any>[]): readonly (readonly RecordFields[])[] => {
  const values = encoded(topics.eventsRaw, events);
  const groups: RecordFields[][] = Array.from({ length: PARTITIONS }, () => []);
  for (const [n, { key }] of events.entries()) {
    const bytes = Buffer.from(key);
    groups[partitionOf(bytes, PARTITIONS)]!.push({ key: bytes, value: values[n]! });
  }
  return groups;
};
const requestOf = (groups: readonly (readonly RecordFields[])[]): Buffer => {
  const partitions = groups.map((messages, partition) => ({ partition, messages }));
  return writeProduceRequest(
    { acks: -1, timeout: 30_000, topicData: [{ topic: topics.eventsRaw.name, partitions }] },
    noon,
  );
};

const stepsOf = async (): Promise<readonly Step[]> => {
  const { bytes, events } = admitted(0.02);
  const orders = admitted(1).events;
  const texts: readonly string[] = JSON.parse(bytes.toString()).events.map((event: object) => JSON.stringify(event));
  const raw = encoded(topics.eventsRaw, events);
  const attributedStages: Step[] = [];
  let given = givenOf(topics.eventsRaw, raw);
  let outputs: readonly Buffer[] = [];
  for (const hosted of chain(pipeline, ["enrich", "score", "attribute"]).hosted) {
    const { step, next } = await folding(hosted, given);
    attributedStages.push(step);
    given = next.next;
    outputs = next.outputs.filter(({ topic }) => topic === topics.eventsAttributed.name).map(({ value }) => value!);
  }
  let ordered = givenOf(topics.eventsRaw, encoded(topics.eventsRaw, orders));
  let money: ReturnType<typeof fold> | undefined;
  for (const hosted of chain(pipeline, ["enrich", "score", "attribute"]).hosted) {
    money = (await folding(hosted, ordered)).next;
    ordered = money.next;
  }
  const valuesOf = (from: ReturnType<typeof fold>, topic: AnyTopic) =>
    from.outputs.filter((output) => output.topic === topic.name).map(({ value }) => value!);
  const settle = await folding(
    chain(pipeline, ["settle"]).hosted[0]!,
    givenOf(topics.claims, valuesOf(money!, topics.claims)),
  );
  const commission = await folding(
    chain(pipeline, ["commission"]).hosted[0]!,
    givenOf(topics.conversions, valuesOf(settle.next, topics.conversions)),
  );
  const attributed = givenOf(topics.eventsAttributed, outputs).map(({ event }) => event);
  const groups = messagesOf(events);
  const request = requestOf([groups.flat()]);
  const batchFrom = request.indexOf(Buffer.from(topics.eventsRaw.name)) + topics.eventsRaw.name.length + 12;
  const body = acceptsBatch(bytes);
  const block = new Block();
  const viewsOf = (values: readonly Buffer[]) =>
    values.map((value) => wire.view(topics.eventsAttributed, value, nowhere));
  const viewed = viewsOf(outputs);
  const blockOf = (all: readonly Recorded<EventAttributed>[]) =>
    eventTable.blockOf(all.flatMap(eventRows), block).bytes.length && all.length;
  const each = (work: (n: number) => unknown, count: number) => () => {
    for (let n = 0; n < count; n++) work(n);
    return count;
  };
  return [
    { name: "parse", run: each((n) => JSON.parse(texts[n]!), texts.length) },
    { name: "accept", run: () => acceptsBatch(bytes).events.length },
    { name: "admit", run: () => [...admitBatch(body, arrival, facts)].length },
    { name: "encode", run: () => encoded(topics.eventsRaw, events).length },
    { name: "partition, group, encode, request", run: () => requestOf(messagesOf(events)) && events.length },
    { name: "records of a fetch", run: () => readRecordBatch(request, batchFrom)!.batch.records.length },
    { name: "decode", run: () => givenOf(topics.eventsRaw, raw).length },
    ...attributedStages,
    { name: "decode attributed", run: () => givenOf(topics.eventsAttributed, outputs).length },
    { name: "rows of values as a block", run: () => blockOf(attributed) },
    { name: "attributed where it lies", run: () => viewsOf(outputs).length },
    { name: "its bytes as a block", run: () => blockOf(viewed) },
    settle.step,
    commission.step,
  ];
};

const cpuUs = ({ run }: Step): number => {
  for (let round = 0; round < ROUNDS_BEFORE; round++) run();
  const before = process.cpuUsage();
  let events = 0;
  for (let round = 0; round < ROUNDS_A_PASS; round++) events += run();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / events;
};

/**
 * Measures every step together with the parse of the same pass, so that a slower machine slows
 * both.
 */
export const measure = async (): Promise<readonly Cost[]> => {
  const steps = await stepsOf();
  const best = new Map(steps.map(({ name }) => [name, Number.POSITIVE_INFINITY]));
  for (let pass = 0; pass <= PASSES; pass++)
    for (const step of steps) {
      const us = cpuUs(step);
      // The first pass only warms up.
      if (pass > 0) best.set(step.name, Math.min(best.get(step.name)!, us));
      await setImmediate();
    }
  const parse = best.get(steps[0]!.name)!;
  return [...best].map(([name, us]) => ({ name, us, ratio: us / parse }));
};

/** Prints a table; with `--json` only the ratios, in the form of bench/pure.ratios.json. */
export const run = async (options: { readonly json?: boolean }): Promise<void> => {
  const costs = await measure();
  const ratios = Object.fromEntries(costs.map(({ name, ratio }) => [name, Number(ratio.toFixed(2))]));
  if (options.json) process.stdout.write(`${JSON.stringify(ratios, null, 2)}\n`);
  else
    process.stdout.write(
      `${table(
        ["step", "us/event", "x JSON.parse"],
        costs.map(({ name, us, ratio }) => [name, us.toFixed(2), ratio.toFixed(2)]),
      )}\n`,
    );
};
