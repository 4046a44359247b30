// Runs one stage over the events of one batch of one partition, and collects what it emits,
// remembers and rejects. Pure: memory and facts are loaded beforehand, or the fold yields the keys
// that it still needs.

import type { AnyStage, AnyTopic, Conflict, Drop, Emit, Emitted, Outcome, Position, Recorded } from "./flow.ts";
import type { LoadedMemory, MemoryWrite } from "./memory/memory.ts";
import { type Recall, recall } from "./memory/recall.ts";
import { nothingTaken, type TakenIds } from "./memory/taken-ids.ts";
import type { InputMessage, OutputMessage } from "./messages.ts";
import type { Counts } from "./ports.ts";
import { type RecordedMessage, type RecordedOutcome, UnknownSchema, type Wire } from "./wire.ts";

/** A stage together with its place in the chain. */
export interface HostedStage {
  readonly stage: AnyStage;
  /**
   * The topic that is skipped because the next stage of the chain reads it from memory. Null for
   * the last stage.
   */
  readonly feeds: AnyTopic | null;
  /**
   * The first stage reads bytes from the log; the others read what the stage before them emitted.
   */
  readonly isFirst: boolean;
}

/** An event as a stage receives it, with the message of the batch that it came from. */
export interface StageInput {
  readonly event: Recorded<any>;
  readonly source: InputMessage;
}

/**
 * A message that a stage rejected, with its input bytes: those in the log, or those that the log
 * would hold if the stage were hosted alone.
 */
export interface StageRefusal {
  readonly stage: string;
  readonly reason: string;
  readonly message: string;
  readonly event: Recorded<any>;
  readonly source: InputMessage;
  readonly topic: string;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
}

export interface FoldResult {
  readonly next: readonly StageInput[];
  readonly outputs: readonly OutputMessage[];
  readonly refused: readonly StageRefusal[];
  /** Records of events whose id was taken. They are no output: nothing reads them but a rebuild. */
  readonly taken: readonly OutputMessage[];
  /** Null when the stage has no memory. The runner adds topic, partition and mark. */
  readonly remembers: Omit<MemoryWrite, "topic" | "partition" | "mark"> | null;
  readonly counts: Counts;
}

/**
 * A processor threw, or emitted data that its topic cannot hold. The fault is in the code rather
 * than in the bytes, so the worker stops at this message.
 */
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

const nothingLoaded: LoadedMemory = { versions: new Map(), outcomes: new Map(), truncated: new Map(), mark: null };
const nothingRemembered = { decode: () => undefined, encode: () => new Uint8Array() };

/**
 * Builds the emitted event exactly as decoding its bytes would, so that a stage cannot tell whether
 * it is chained or hosted alone.
 */
const emittedEvent = (topic: AnyTopic, input: Recorded<any>, { data, at }: Emitted<any>): Recorded<any> => ({
  id: topic.idOf(data),
  key: topic.keyOf(data),
  at: at ?? input.at,
  receivedAt: input.receivedAt,
  position: input.position,
  data,
});

/**
 * A position is passed on only while the key stays the same. Outputs with another key start a chain
 * of their own.
 */
const originFor = (stage: AnyStage, topic: AnyTopic, event: Recorded<any>): Position | null =>
  topic.keyedBy === stage.from.keyedBy ? event.position : null;

const count = (reasons: Map<string, number>, reason: string): void => {
  reasons.set(reason, 1 + (reasons.get(reason) ?? 0));
};

interface MetVersions {
  readonly keys: readonly string[];
  readonly values: readonly unknown[];
  readonly further: readonly string[];
}
/** Shared by all events that need no memory, which are nearly all events. */
const metNothing: MetVersions = { keys: [], values: [], further: [] };

/** The results of the batch so far. */
class FoldState {
  readonly next: StageInput[] = [];
  readonly outputs: OutputMessage[] = [];
  readonly refused: StageRefusal[] = [];
  readonly taken: OutputMessage[] = [];
  readonly dropped = new Map<string, number>();
  readonly rejected = new Map<string, number>();
  emitting = 0;
  emitted = 0;
  recalled = 0;
  readonly #hosted: HostedStage;
  readonly #wire: Wire;
  readonly #remembered: Recall;
  readonly #takenIds: TakenIds;
  /**
   * Nearly every event of a stage goes to the same output as the one before it, so the last one is
   * cached.
   */
  #output: PropertyKey | undefined;
  #topic: AnyTopic | undefined;
  /** The last answer of `lacking`. `#decide` reuses it, because nothing is noted in between. */
  #asked: { readonly event: Recorded<any>; readonly met: MetVersions } | null = null;

  constructor(hosted: HostedStage, wire: Wire, remembered: Recall, takenIds: TakenIds) {
    this.#hosted = hosted;
    this.#wire = wire;
    this.#remembered = remembered;
    this.#takenIds = hosted.stage.taken === undefined ? nothingTaken : takenIds;
  }

  one(given: StageInput, factsOf: (event: Recorded<any>) => unknown): void {
    const isDurable = this.#hosted.stage.memory?.driver === "durable";
    const decided = isDurable ? this.#remembered.decided(given.event.id) : undefined;
    if (decided !== undefined) {
      const recorded = this.#wire.decodeOutcome(decided);
      const conflict = this.#conflictWith(recorded, given.event);
      this.#recordTaken(given.event, conflict);
      if (conflict !== null) this.#refuse(conflict.reason, given, conflict.message);
      else {
        this.recalled += 1;
        this.#answer(recorded, given);
      }
      return;
    }
    // Memory does not know the first event of this id yet: it was lost, and is read again.
    const taken = this.#takenIds.of(given.event);
    if (taken !== undefined) {
      if (taken === null) this.recalled += 1;
      else this.#refuse(taken.reason, given, taken.message);
      return;
    }
    const outcome = this.#decide(given.event, factsOf(given.event));
    if (outcome.kind === "reject") {
      this.#refuse(outcome.reason, given);
      return;
    }
    if (outcome.kind === "drop") count(this.dropped, outcome.reason);
    else {
      this.emitting += 1;
      this.emitted += outcome.events.length;
    }
    if (isDurable) this.#answer(this.#record(outcome, given.event), given);
    else if (outcome.kind === "emit") this.#pass(outcome.events, given);
  }

  /** The keys that this event needs and that are not loaded yet. */
  lacking(event: Recorded<any>): readonly string[] {
    if (this.#remembered.decided(event.id) !== undefined) return [];
    const met = this.#met(event);
    this.#asked = { event, met };
    return met.further.length === 0 ? met.further : this.#remembered.lacks(met.further);
  }

  #topicOf({ output }: Emitted<any>): AnyTopic {
    if (output === this.#output) return this.#topic!;
    const { name, to } = this.#hosted.stage;
    const topic = to[String(output)];
    if (topic === undefined) throw new Error(`${name} has no output ${String(output)}`);
    this.#output = output;
    this.#topic = topic;
    return topic;
  }

  /**
   * The keys that an event names, their values, and the further keys that these values name. Values
   * of further keys that are loaded may name more of them.
   */
  #met(event: Recorded<any>): MetVersions {
    const memory = this.#hosted.stage.memory!;
    const keys = memory.keysOf(event);
    if (keys.length === 0 && memory.furtherKeysOf === undefined) return metNothing;
    const valuesOf = (of: readonly string[]) => of.map((key) => this.#remembered.meet(event, key));
    const values = valuesOf(keys);
    let further = memory.furtherKeysOf?.(event, values) ?? [];
    for (let known = 0; further.length > known && this.#remembered.lacks(further).length === 0; ) {
      known = further.length;
      further = memory.furtherKeysOf!(event, [...values, ...valuesOf(further)]);
    }
    return { keys, values, further };
  }

  /** Runs the processor on the remembered state and notes the changes. */
  #decide(event: Recorded<any>, facts: unknown): Outcome<any, any, string> {
    const { run, memory } = this.#hosted.stage;
    if (memory === undefined) return run(event, null, facts);
    let { keys, values, further } = this.#asked?.event === event ? this.#asked.met : this.#met(event);
    if (further.length > 0) {
      keys = [...keys, ...further];
      values = [...values, ...further.map((key) => this.#remembered.meet(event, key))];
    }
    const state = memory.stateOf(keys, values);
    const outcome = run(event, state, facts);
    if (outcome.kind === "reject") return outcome;
    for (const { key, value } of memory.changes(keys, state, outcome.state)) this.#remembered.note(event, key, value);
    return outcome;
  }

  /**
   * Null means no conflict. An outcome written under a schema that this process has not read yet is
   * sent again unchecked.
   */
  #conflictWith({ messages }: RecordedOutcome, event: Recorded<any>): Conflict | null {
    const { to, conflict } = this.#hosted.stage;
    if (conflict === undefined) return null;
    const topics = new Map(Object.values(to).map((topic) => [topic.name, topic]));
    try {
      const outputs = messages.map(({ topic, value }) => this.#wire.decode(topics.get(topic)!, value, event.position));
      return conflict(event, outputs);
    } catch (error) {
      if (error instanceof UnknownSchema) return null;
      throw error;
    }
  }

  /**
   * Events of one partition are always read in one order. So a record is needed only if the first
   * event of this id lies on another one.
   */
  #recordTaken(event: Recorded<any>, conflict: Conflict | null): void {
    const { taken } = this.#hosted.stage;
    const partition = this.#remembered.decidedOn(event.id);
    if (taken === undefined || partition === undefined || partition === event.position.partition) return;
    const { to } = taken;
    const data = taken.record(event, conflict);
    const made = { ...event, id: to.idOf(data), key: to.keyOf(data), data };
    this.taken.push({ topic: to.name, key: made.key, value: this.#wire.encode(to, made, null) });
  }

  #refuse(reason: string, { event, source }: StageInput, message = reason): void {
    const { stage, isFirst } = this.#hosted;
    count(this.rejected, reason);
    const key = isFirst ? source.key : Buffer.from(event.key);
    const value = isFirst ? source.value : this.#wire.encode(stage.from, event, event.position);
    this.refused.push({ stage: stage.name, reason, message, event, source, topic: stage.from.name, key, value });
  }

  #pass(events: readonly Emitted<any>[], { event, source }: StageInput): void {
    const { feeds } = this.#hosted;
    for (const emitted of events) {
      const topic = this.#topicOf(emitted);
      if (topic === feeds) this.next.push({ event: emittedEvent(topic, event, emitted), source });
      else this.outputs.push(this.#message(topic, event, emitted));
    }
  }

  #message(topic: AnyTopic, event: Recorded<any>, emitted: Emitted<any>): RecordedMessage {
    const made = emittedEvent(topic, event, emitted);
    return {
      topic: topic.name,
      key: made.key,
      value: this.#wire.encode(topic, made, originFor(this.#hosted.stage, topic, event)),
    };
  }

  #record(outcome: Emit<any, any> | Drop<any, string>, event: Recorded<any>): RecordedOutcome {
    const events = outcome.kind === "emit" ? outcome.events : [];
    const recorded = {
      dropped: outcome.kind === "drop" ? outcome.reason : null,
      messages: events.map((emitted) => this.#message(this.#topicOf(emitted), event, emitted)),
    };
    this.#remembered.decide(event, this.#wire.encodeOutcome(recorded));
    return recorded;
  }

  /**
   * Sends the recorded messages byte for byte. Messages for the next stage of the chain are decoded
   * from the same bytes.
   */
  #answer({ messages }: RecordedOutcome, { event, source }: StageInput): void {
    const { feeds } = this.#hosted;
    for (const message of messages)
      if (feeds !== null && message.topic === feeds.name)
        this.next.push({ event: this.#wire.decode(feeds, message.value, event.position), source });
      else this.outputs.push(message);
  }
}

/**
 * Folds the events in order, so every event sees the changes of those before it. With durable
 * memory, an event that was decided before, in an earlier batch or in this one, gets its recorded
 * outcome again. A rejected event changes nothing. Yields the keys that must be loaded next, or an
 * empty list when `isDue` asks for a pause. Throws ProcessorThrew.
 */
export function* folding(
  hosted: HostedStage,
  given: readonly StageInput[],
  { factsOf, loaded, wire, isDue, takenIds = nothingTaken }: FoldedWith,
): Generator<readonly string[], FoldResult, LoadedMemory | null> {
  const { name, memory } = hosted.stage;
  const remembered = recall(memory?.driver ?? "fast", loaded ?? nothingLoaded, memory ?? nothingRemembered);
  const folding = new FoldState(hosted, wire, remembered, takenIds);
  const lacking = (one: StageInput): readonly string[] => {
    try {
      return folding.lacking(one.event);
    } catch (cause) {
      throw new ProcessorThrew(name, one.source.offset, cause);
    }
  };
  const namesFurtherKeys = memory?.furtherKeysOf !== undefined;
  if (namesFurtherKeys) {
    // Collects the further keys of the whole batch first, so that most of them arrive in one load.
    const all = () => [...new Set(given.flatMap(lacking))];
    for (let keys = all(); keys.length > 0; keys = all()) remembered.learn(keys, (yield keys) ?? nothingLoaded);
  }
  for (const one of given) {
    if (isDue()) yield [];
    if (namesFurtherKeys) {
      for (let keys = lacking(one); keys.length > 0; keys = lacking(one))
        remembered.learn(keys, (yield keys) ?? nothingLoaded);
    }
    try {
      folding.one(one, factsOf);
    } catch (cause) {
      throw new ProcessorThrew(name, one.source.offset, cause);
    }
  }
  const { next, outputs, refused, taken, emitting, emitted, dropped, rejected, recalled } = folding;
  const encoded = (event: Recorded<unknown>, value: unknown): Uint8Array => {
    try {
      return memory!.encode(value);
    } catch (cause) {
      throw new ProcessorThrew(name, given.find((one) => one.event === event)!.source.offset, cause);
    }
  };
  return {
    next,
    outputs,
    refused,
    taken,
    remembers: memory === undefined ? null : { stage: name, ...remembered.noted(encoded) },
    counts: {
      stage: name,
      events: given.length,
      emitting,
      outputs: emitted,
      dropped,
      rejected,
      recalled,
      truncated: remembered.truncated(),
    },
  };
}

export interface FoldedWith {
  readonly factsOf: (event: Recorded<any>) => unknown;
  /** The values under the keys that the events name themselves. */
  readonly loaded: LoadedMemory | null;
  readonly wire: Wire;
  readonly isDue: () => boolean;
  /** What the log says of ids whose first event memory may not know. */
  readonly takenIds?: TakenIds;
}

const neverDue = (): boolean => false;

/** Folds in one go. Only for events whose further keys hold no remembered values. */
export const fold = (
  hosted: HostedStage,
  given: readonly StageInput[],
  factsOf: (event: Recorded<any>) => unknown,
  loaded: LoadedMemory | null,
  wire: Wire,
): FoldResult => {
  const steps = folding(hosted, given, { factsOf, loaded, wire, isDue: neverDue });
  for (;;) {
    const step = steps.next(null);
    if (step.done) return step.value;
  }
};
