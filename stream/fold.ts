// stream/fold.ts - one stage over the events of one batch of one partition: what it emits, remembers and rejects. Pure; all that it meets was loaded before.
import type { AnyStage, AnyTopic, Emitted, Outcome, Position, Recorded } from "./flow.ts";
import type { Loaded, Remembering } from "./memory/memory.ts";
import { decodeOutcome, encodeOutcome, type RecordedOutcome } from "./memory/outcome.ts";
import { type Recall, recall } from "./memory/recall.ts";
import type { InputMessage, OutputMessage } from "./runner.ts";
import type { Wire } from "./wire.ts";

/** A stage as it is hosted. */
export interface Hosted {
  readonly stage: AnyStage;
  /** The topic that is skipped, because the next stage hosted here reads it from memory; null for the last one. */
  readonly feeds: AnyTopic | null;
  /** The first one is given the bytes of the log, the others what the one before emitted. */
  readonly isFirst: boolean;
}

/** An event as a stage is given it, with the message of the batch that it came from. */
export interface Given {
  readonly event: Recorded<any>;
  readonly source: InputMessage;
}

/** What a stage refused, with the bytes that it was given: those of the log, or those that the log would hold were it hosted alone. */
export interface Refused {
  readonly stage: string;
  readonly reason: string;
  readonly event: Recorded<any>;
  readonly source: InputMessage;
  readonly topic: string;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
}

/** events = emitting + recalled + the sums of dropped and rejected. */
export interface Counts {
  readonly stage: string;
  readonly events: number;
  /** Events that ended in emit, whatever the number of outputs. */
  readonly emitting: number;
  /** Outputs of emits, those to the next stage hosted here included. */
  readonly outputs: number;
  readonly dropped: ReadonlyMap<string, number>;
  readonly rejected: ReadonlyMap<string, number>;
  /** Events decided before and answered with their recorded outcome. */
  readonly recalled: number;
  /** Events that met less than was once remembered, for they are older than what is kept. */
  readonly truncated: number;
}

export interface Folded {
  readonly next: readonly Given[];
  readonly outputs: readonly OutputMessage[];
  readonly refused: readonly Refused[];
  /** Null when the stage remembers nothing. Topic, partition and mark are the runner's to add. */
  readonly remembers: Omit<Remembering, "topic" | "partition" | "mark"> | null;
  readonly counts: Counts;
}

/** A processor threw, or emitted data that its topic cannot hold: the worker stops at this message, for no bytes are at fault. */
export class ProcessorThrew extends Error {
  readonly stage: string;
  readonly offset: number;
  constructor(stage: string, offset: number, cause: unknown) {
    super(`${stage} threw: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    this.name = "ProcessorThrew";
    this.stage = stage;
    this.offset = offset;
  }
}

const nothingLoaded: Loaded = { versions: new Map(), outcomes: new Map(), truncated: new Map(), mark: null };

/** The event that an emit becomes: what a decode of its bytes would give, so that a stage cannot tell how it is hosted. */
const emittedEvent = (topic: AnyTopic, input: Recorded<any>, { data, at }: Emitted<any>): Recorded<any> => ({
  id: topic.idOf(data),
  key: topic.keyOf(data),
  at: at ?? input.at,
  receivedAt: input.receivedAt,
  position: input.position,
  data,
});

/** Positions survive as long as the key stays: outputs on another key start a chain of their own. */
const originFor = (stage: AnyStage, topic: AnyTopic, event: Recorded<any>): Position | null =>
  topic.keyedBy === stage.from.keyedBy ? event.position : null;

/** Runs one event against its state, and notes what it left behind. */
const runOne = ({ run, memory }: AnyStage, event: Recorded<any>, facts: unknown, remembered: Recall): Outcome<any, any, string> => {
  if (memory === undefined) return run(event, null, facts);
  const keys = memory.keysOf(event);
  const state = memory.stateOf(
    keys,
    keys.map((key) => remembered.meet(event, key)),
  );
  const outcome = run(event, state, facts);
  if (outcome.kind !== "reject")
    for (const { key, value } of memory.changes(keys, state, outcome.state)) remembered.note(event, key, value);
  return outcome;
};

/**
 * Folds the events in order. Every event meets what those before it have left; in durable memory one that was decided before, in an earlier batch
 * or in this one, is answered with its recorded outcome and not decided again. A reject leaves nothing behind. Throws ProcessorThrew.
 */
export const fold = (
  { stage, feeds, isFirst }: Hosted,
  given: readonly Given[],
  factsOf: (event: Recorded<any>) => unknown,
  loaded: Loaded | null,
  wire: Wire,
): Folded => {
  const isDurable = stage.memory?.driver === "durable";
  const remembered = recall(stage.memory?.driver ?? "fast", loaded ?? nothingLoaded);
  const next: Given[] = [];
  const outputs: OutputMessage[] = [];
  const refused: Refused[] = [];
  const dropped = new Map<string, number>();
  const rejected = new Map<string, number>();
  const counted = { emitting: 0, outputs: 0, recalled: 0 };
  const count = (reasons: Map<string, number>, reason: string) => reasons.set(reason, 1 + (reasons.get(reason) ?? 0));

  const refuse = ({ event, source }: Given, reason: string): void => {
    count(rejected, reason);
    refused.push({
      stage: stage.name,
      reason,
      event,
      source,
      topic: stage.from.name,
      key: isFirst ? source.key : Buffer.from(event.key),
      value: isFirst ? source.value : wire.encode(stage.from, event, event.position),
    });
  };

  const pass = (events: readonly Emitted<any>[], { event, source }: Given): void => {
    for (const emitted of events) {
      const topic = stage.to[String(emitted.output)]!;
      const made = emittedEvent(topic, event, emitted);
      if (topic === feeds) next.push({ event: made, source });
      else outputs.push({ topic: topic.name, key: made.key, value: wire.encode(topic, made, originFor(stage, topic, event)) });
    }
  };

  /** Sends what is recorded, byte for byte; what feeds the next stage here is read from the same bytes. */
  const answer = ({ messages }: RecordedOutcome, { event, source }: Given): void => {
    for (const { topic, key, value } of messages)
      if (topic === feeds?.name) next.push({ event: wire.decode(feeds, value, event.position), source });
      else outputs.push({ topic, key, value });
  };

  const record = (outcome: Outcome<any, any, string>, event: Recorded<any>): RecordedOutcome => {
    const messages = (outcome.kind === "emit" ? outcome.events : []).map((emitted) => {
      const topic = stage.to[String(emitted.output)]!;
      const made = emittedEvent(topic, event, emitted);
      return { topic: topic.name, key: made.key, value: wire.encode(topic, made, originFor(stage, topic, event)) };
    });
    const recorded = { dropped: outcome.kind === "drop" ? outcome.reason : null, messages };
    remembered.decide(event, encodeOutcome(recorded));
    return recorded;
  };

  const foldOne = (one: Given): void => {
    const decided = isDurable ? remembered.decided(one.event.id) : undefined;
    if (decided !== undefined) {
      counted.recalled += 1;
      return answer(decodeOutcome(decided), one);
    }
    const outcome = runOne(stage, one.event, factsOf(one.event), remembered);
    if (outcome.kind === "reject") return refuse(one, outcome.reason);
    if (outcome.kind === "drop") count(dropped, outcome.reason);
    else {
      counted.emitting += 1;
      counted.outputs += outcome.events.length;
    }
    if (isDurable) answer(record(outcome, one.event), one);
    else if (outcome.kind === "emit") pass(outcome.events, one);
  };

  for (const one of given) {
    try {
      foldOne(one);
    } catch (cause) {
      throw new ProcessorThrew(stage.name, one.source.offset, cause);
    }
  }
  return {
    next,
    outputs,
    refused,
    remembers: stage.memory === undefined ? null : { stage: stage.name, ...remembered.noted() },
    counts: { stage: stage.name, events: given.length, ...counted, dropped, rejected, truncated: remembered.truncated() },
  };
};
