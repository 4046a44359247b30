// The building blocks of a pipeline: types and constructors. This file contains no domain logic and
// opens no connections.

/** Milliseconds since 1970 in UTC. A number, because anyone who holds a Date can change it. */
export type UnixMs = number;

/** The place of a record in the log. Offsets stay below 2^53, so a number holds them exactly. */
export interface Position {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
}

/**
 * One event as the runner passes it to a stage. `at` is the event time and `receivedAt` the time
 * when an edge accepted the event; neither is the current time. `position` is where the event
 * entered its chain, so it does not depend on how stages are hosted.
 */
export interface Recorded<T> {
  readonly id: string;
  readonly key: string;
  readonly at: UnixMs;
  readonly receivedAt: UnixMs;
  readonly position: Position;
  readonly data: T;
}

/**
 * One constant holds a topic's name, key and codec. `encode` and `decode` together make T
 * invariant, so a stage reads and writes exactly this record.
 * Both are synchronous and pure. `body` is Avro without the wire header; infra/avro/wire.ts adds
 * the header once it has looked up the schema ids at start.
 */
export interface Topic<T> {
  readonly name: string;
  /**
   * The meaning of the key, e.g. `client_id:did`. Stages can only be chained where it stays the
   * same.
   */
  readonly keyedBy: string;
  readonly partitions: number;
  /** The Avro schema of a value including its envelope, registered under `<name>-value`. */
  readonly schema: object;
  readonly idOf: (data: T) => string;
  readonly keyOf: (data: T) => string;
  /**
   * Builds what `encode` and `decode` need, which takes milliseconds and throws on a bad schema. A
   * wire does it for its topics when it opens, so that a process builds no others.
   */
  readonly prepare: () => void;
  /**
   * Writes the Avro body into `into` at `offset`. Returns the end, or a negative number when the
   * body does not fit. Throws if the data is not a valid T.
   */
  readonly encode: (event: Recorded<T>, origin: Position | null, into: Buffer, offset: number) => number;
  /**
   * Decodes an Avro body that was written under the schema `writer` (null: this topic's own
   * schema). Throws Unreadable for any other input.
   */
  readonly decode: (body: Buffer, read: Position, writer: object | null) => Recorded<T>;
}

/**
 * `Out` maps output names to records. So an emitted event names its output, and the compiler
 * refuses data that belongs to another output.
 */
export type Emitted<Out> = {
  [Name in keyof Out]: {
    readonly output: Name;
    readonly data: Out[Name];
    /** The event time, if it differs from the input's: a refund carries the time of its sale. */
    readonly at?: UnixMs;
  };
}[keyof Out];

export interface Emit<Out, State> {
  readonly kind: "emit";
  readonly events: readonly Emitted<Out>[];
  readonly state: State;
}
export interface Drop<State, Reason> {
  readonly kind: "drop";
  readonly reason: Reason;
  readonly state: State;
}
export interface Reject<Reason> {
  readonly kind: "reject";
  readonly reason: Reason;
  readonly state?: never;
}

/**
 * Every event ends in exactly one of these outcomes. A throw is not an outcome: the runner retries
 * it and then stops the worker. Returning the state object unchanged writes no new version.
 */
export type Outcome<Out, State, Reason> = Emit<Out, State> | Drop<State, Reason> | Reject<Reason>;

/**
 * Pure and synchronous: no clock, no I/O and no randomness. The same arguments always give the same
 * outcome. A null type parameter means that the processor has no state or no facts.
 */
export type Processor<In, Out, State = null, Facts = null, Reason extends string = never> = (
  event: Recorded<In>,
  state: State,
  facts: Facts,
) => Outcome<Out, State, Reason>;

/**
 * Declares what a stage may remember. `keysOf` names the values that an event reads: its record key
 * for `remembers`, several sub-keys for `remembersBy`, and none when the event needs no memory
 * (then nothing is loaded). Each value that `changes` returns becomes a new version. The `durable`
 * driver is for decisions about money: an event that was decided before gets its recorded outcome
 * again.
 */
export interface MemoryOf<State> {
  readonly name: string;
  /** Must equal the key of the stage's topic, because memory never crosses partitions. */
  readonly keyedBy: string;
  readonly driver: "fast" | "durable";
  readonly keysOf: (event: Recorded<any>) => readonly string[];
  /**
   * Names further keys to read, which depend on the values of `keysOf`. It is asked again with the
   * values of these keys behind the first ones, until it names no more. `stateOf` and `changes`
   * receive the keys of `keysOf` first, then these.
   */
  readonly furtherKeysOf?: (event: Recorded<any>, values: readonly any[]) => readonly string[];
  /**
   * Durable values are read and written once a batch, however many events use them. So a processor
   * must see no difference between a value and the result of encoding and decoding it.
   */
  readonly decode: (bytes: Uint8Array) => unknown;
  readonly encode: (value: any) => Uint8Array;
  /**
   * Builds the state from the values of `keys`. A value is undefined if nothing is remembered under
   * its key.
   */
  readonly stateOf: (keys: readonly string[], values: readonly any[]) => State;
  /**
   * Returns the keys whose value differs from `before`, with their new values. Values are compared
   * by reference, so returning the state object unchanged changes nothing.
   */
  readonly changes: (
    keys: readonly string[],
    before: State,
    after: State,
  ) => readonly { readonly key: string; readonly value: unknown }[];
}

/**
 * Names a read-only snapshot, e.g. of reference data, that the app knows how to load. A facts
 * loader receives a `View`.
 */
export interface View<T> {
  readonly view: string;
  readonly of?: T;
}

/**
 * Loads a snapshot that contains at least everything recorded before `asOf`. The app supplies this
 * function, because a topology opens no connections.
 */
export type Read = <T>(view: View<T>, asOf: UnixMs) => Promise<T>;

/**
 * What a stage looks up: one bulk read for the batch, then a pure function of each event. The facts
 * are those valid at event time, as known when the event was received.
 */
export interface FactsFor<In, Facts> {
  readonly name: string;
  /** The store that is queried for each batch. The stage waits while this store is down. */
  readonly store?: "redis";
  readonly load: (batch: readonly Recorded<In>[], read: Read) => Promise<(event: Recorded<In>) => Facts>;
}

/**
 * Writes rows inside one transaction or insert, which the runner opens and ends. `table` holds what
 * its store needs for the write. The driver decides whether rows are arrays or objects.
 */
export type Write = (table: { readonly name: string }, rows: readonly unknown[]) => Promise<void>;

type Needs<Field extends string, Value, Source> = [Value] extends [null]
  ? { readonly [F in Field]?: never }
  : { readonly [F in Field]: Source };
type Outputs<Out> = { readonly [Name in keyof Out]: Topic<Out[Name]> };

/**
 * One id stands for two different events: `reason` is the dead letter's code, and `message` names
 * the first event.
 */
export interface Conflict {
  readonly reason: string;
  readonly message: string;
}

/**
 * How a stage records that an id was taken: its event came when an event under another record key,
 * on another partition, had been decided under that id. A rebuild may read that partition later,
 * and the record says even then which of both was first. Its topic has the key of the stage's own,
 * and `idOf` of it is the id of the event.
 */
export interface TakenIdRecorder<In> {
  readonly to: Topic<any>;
  /** Null if the event says the same as the first one. */
  readonly record: (event: Recorded<In>, conflict: Conflict | null) => object;
  /** The conflict that `record` wrote down. */
  readonly read: (data: any) => Conflict | null;
  /** That of an event whose first one memory has lost, and which is only compared with it later. */
  readonly awaits: Conflict;
}

/**
 * The processor's type decides, and the topics must fit it. NoInfer makes the compiler report each
 * error at the topic that does not fit. `name` is part of ids and consumer groups, so it never
 * changes.
 */
export type Stage<In, Out, State, Facts, Reason extends string> = {
  readonly name: string;
  /**
   * Raise this number whenever the stage's decisions change. Then past events are corrected by
   * `tributary reprocess` only, and a rewind across the change is refused. The default is 1.
   */
  readonly revision?: number;
  readonly from: Topic<NoInfer<In>>;
  readonly run: Processor<In, Out, State, Facts, Reason>;
  readonly to: NoInfer<Outputs<Out>>;
  /**
   * For stages with durable memory: the event's id was decided before and led to `outputs`. Returns
   * why this event differs from that first one, or null if both are the same; then the recorded
   * outputs are sent again.
   */
  readonly conflict?: (event: Recorded<NoInfer<In>>, outputs: readonly Recorded<unknown>[]) => Conflict | null;
  readonly taken?: TakenIdRecorder<NoInfer<In>>;
} & NoInfer<Needs<"memory", State, MemoryOf<State>>> &
  NoInfer<Needs<"facts", Facts, FactsFor<In, Facts>>>;

/** The facts of an edge about a request apart from its body. Header names are lower-case. */
export interface Arrival {
  readonly receivedAt: UnixMs;
  /** The authenticated sender: a client id for a token, otherwise an address. */
  readonly sender: string;
  readonly address: string | null;
  readonly header: (name: string) => string | undefined;
}

/**
 * Why an edge refused one event of a body, in the sender's words: where the problem is, what is
 * wrong, and whether a resend can help.
 */
export interface Refusal {
  readonly code: string;
  readonly field: string | null;
  readonly message: string;
  readonly retryable: boolean;
}
/**
 * Nothing of this body can be accepted. `pointer` is a JSON Pointer to the problem. The code
 * `bad_json` has no pointer, because the body cannot be parsed.
 */
export class BadBody extends Error {
  readonly code: string;
  readonly pointer: string;
  constructor(code: string, pointer: string, message: string) {
    super(message);
    this.name = "BadBody";
    this.code = code;
    this.pointer = pointer;
  }
}

export type Admission<Out> =
  | { readonly kind: "accepted"; readonly id: string; readonly at: UnixMs; readonly data: Out }
  | { readonly kind: "refused"; readonly id: string | null; readonly refusal: Refusal };

/** The parsed content of a request. A request with a single event becomes a list of one. */
export interface Events {
  readonly events: readonly unknown[];
}

/**
 * The entry point for requests from outside. `accepts` parses the body and throws BadBody with the
 * place of the problem. `admit` is pure and answers for each event of the body in order, lazily.
 * The sender gets an answer once its events are stored: in the log, else on the edge's disk, else
 * in object storage (see modules/intake/path/host-edge.ts).
 */
export interface Edge<Body extends Events, Facts, Out> {
  /** Also the `source` of its events, which decides where their dead letters go. */
  readonly name: string;
  readonly on: `${"GET" | "POST" | "PUT" | "GET|POST"} /${string}`;
  readonly accepts: (body: unknown) => Body;
  readonly admit: (body: NoInfer<Body>, arrival: Arrival, facts: Facts) => Iterable<Admission<Out>>;
  readonly to: Topic<NoInfer<Out>>;
}

/**
 * The entry point for records that Tributary itself writes. It refuses nothing, and the same input
 * always gives the same record. `at` is the time of the decision or the save, and also the receipt
 * time unless `receivedAt` differs.
 */
export interface Feed<Given, Out> {
  readonly name: string;
  /** A description in words, or `table <name>` if an outbox feeds it. */
  readonly on: string;
  readonly record: (given: Given) => { readonly at: UnixMs; readonly receivedAt?: UnixMs; readonly data: Out };
  readonly to: Topic<NoInfer<Out>>;
}

export interface Sink<T, Row> {
  readonly name: string;
  readonly from: Topic<T>;
  readonly rows: (event: Recorded<NoInfer<T>>) => readonly Row[];
  readonly into: Table<NoInfer<Row>>;
}

/**
 * A table that a sink fills. Writing the same rows twice has the same effect as writing them once;
 * `key` names the columns that guarantee this. `tenantOf` supplies the tenant for row-level
 * security.
 */
export interface Table<Row> {
  readonly name: string;
  readonly store: "clickhouse" | "postgres" | "redis";
  readonly key: readonly (keyof Row & string)[];
  readonly tenantOf: (row: Row) => number;
  /**
   * May call `write` several times. In Postgres all calls share one transaction; in ClickHouse each
   * call is one insert.
   */
  readonly write: (rows: readonly Row[], write: Write) => Promise<void>;
  /**
   * Tells the jobs that keep summaries of this table which rows changed. Written after the rows are
   * stored and before the offsets move.
   */
  readonly marks?: Marks<Row>;
  /** Why the state hash leaves this table out. A table without a reason is included. */
  readonly unhashed?: string;
  /** No figure reads this table, so `as_of` of figures does not wait for its sink. */
  readonly isBesideFigures?: true;
}

/**
 * Rows of a second table, in any store, that name what changed in the first. Naming too much costs
 * extra work but is never wrong.
 */
export interface Marks<Row> {
  readonly of: (rows: readonly Row[]) => readonly any[];
  readonly into: Table<any>;
}

/**
 * A sink that stores records byte for byte. It decodes nothing, so unreadable records are stored
 * too.
 */
export interface Copy<T> {
  readonly name: string;
  readonly from: Topic<T>;
  readonly into: Files;
}

/**
 * Files of records, named by partition and offsets. Storing the same records twice leaves one file.
 */
export interface Files {
  readonly name: string;
  readonly store: "objects";
  /** Why the state hash leaves out these files. */
  readonly unhashed?: string;
}

// Nodes with different records share one list. The constructors above check the types, and the list
// erases them. These are the only uses of `any`.
export type AnyTopic = Topic<any>;
export interface AnyStage {
  readonly is: "stage";
  readonly name: string;
  readonly revision?: number;
  readonly from: AnyTopic;
  readonly run: Processor<any, any, any, any, any>;
  readonly to: Readonly<Record<string, AnyTopic>>;
  readonly memory?: MemoryOf<any>;
  readonly facts?: FactsFor<any, any>;
  readonly conflict?: (event: Recorded<any>, outputs: readonly Recorded<unknown>[]) => Conflict | null;
  readonly taken?: TakenIdRecorder<any>;
}
export type AnyEdge = { readonly is: "edge" } & Edge<any, any, any>;
export type AnyFeed = { readonly is: "edge" } & Feed<any, any>;
export type AnySink = { readonly is: "sink" } & Sink<any, any>;
export type AnyCopy = { readonly is: "sink" } & Copy<any>;
/** A node that reads a topic and therefore belongs to a consumer group. */
export type AnyReader = AnyStage | AnySink | AnyCopy;
export type Node = AnyEdge | AnyFeed | AnyReader;

/** True for sinks that write rows, false for sinks that copy files. */
export const writesRows = (node: AnySink | AnyCopy): node is AnySink => "rows" in node;

/**
 * Chooses the dead-letter topic by the event that the bytes hold (undefined: unreadable). A
 * function, so that this file need not know what a source is.
 */
export type DeadLetterRoute = (event: Recorded<any> | undefined) => string;

export interface Topology {
  readonly name: string;
  readonly nodes: readonly Node[];
  readonly deadLetters: DeadLetterRoute;
}
/**
 * A topology that keeps the names and types of its nodes, for code that looks up a node by name.
 */
export interface Declared<Nodes extends readonly Node[]> extends Topology {
  readonly declared: Nodes;
}

/** A node with a literal type for its name. */
type NamedNode<Kind, Name extends string, Node> = Node & { readonly is: Kind; readonly name: Name };

export const edge: {
  <Given, Out, const Name extends string = string>(
    node: Feed<Given, Out> & { readonly name: Name },
  ): NamedNode<"edge", Name, Feed<Given, Out>>;
  // The more general overload is last because the compiler reports errors against the last one.
  <Body extends Events, Facts, Out, const Name extends string = string>(
    node: Edge<Body, Facts, Out> & { readonly name: Name },
  ): NamedNode<"edge", Name, Edge<Body, Facts, Out>>;
} = (node: any): any => ({ is: "edge", ...node });
export const stage = <In, Out, State, Facts, Reason extends string, const Name extends string = string>(
  node: Stage<In, Out, State, Facts, Reason> & { readonly name: Name },
): NamedNode<"stage", Name, AnyStage> => ({
  ...(node as Omit<AnyStage, "is" | "name"> & { readonly name: Name }),
  is: "stage",
});
export const sink: {
  <T, Row, const Name extends string = string>(
    node: Sink<T, Row> & { readonly name: Name },
  ): NamedNode<"sink", Name, AnySink>;
  <T, const Name extends string = string>(node: Copy<T> & { readonly name: Name }): NamedNode<"sink", Name, AnyCopy>;
} = (node: any): any => ({ is: "sink", ...node });

/** Declares marks, and checks that the result of `of` fits the table that it is written to. */
export const marks = <Row, Mark>(
  of: (rows: readonly Row[]) => readonly Mark[],
  into: Table<NoInfer<Mark>>,
): Marks<Row> => ({ of, into });

export const emit: {
  <Out>(events: readonly Emitted<Out>[]): Emit<Out, null>;
  <Out, State>(events: readonly Emitted<Out>[], state: State): Emit<Out, State>;
} = (events: readonly any[], state: any = null): Emit<any, any> => ({ kind: "emit", events, state });

export const drop: {
  <Reason extends string>(reason: Reason): Drop<null, Reason>;
  <Reason extends string, State>(reason: Reason, state: State): Drop<State, Reason>;
} = (reason: any, state: any = null): Drop<any, any> => ({ kind: "drop", reason, state });

export const reject = <Reason extends string>(reason: Reason): Reject<Reason> => ({ kind: "reject", reason });

const noKeys: readonly string[] = [];
const noChanges: readonly never[] = [];

/**
 * Declares one remembered value for each record key. `when` leaves out events that need no memory.
 */
export const remembers = <State>(memory: {
  readonly name: string;
  readonly keyedBy: string;
  readonly driver: "fast" | "durable";
  readonly initial: State;
  readonly when?: (event: Recorded<any>) => boolean;
  readonly encode: (state: State) => Uint8Array;
  readonly decode: (bytes: Uint8Array) => State;
}): MemoryOf<State> => ({
  name: memory.name,
  keyedBy: memory.keyedBy,
  driver: memory.driver,
  keysOf: (event) => (memory.when === undefined || memory.when(event) ? [event.key] : noKeys),
  decode: memory.decode,
  encode: memory.encode,
  stateOf: (_, [value]) => (value === undefined ? memory.initial : value),
  changes: ([key], before, after) => (after === before || key === undefined ? noChanges : [{ key, value: after }]),
});

const furtherOf = <Value>({
  keysOf,
  furtherKeysOf,
}: Parameters<typeof remembersBy<Value>>[0]): Pick<MemoryOf<unknown>, "furtherKeysOf"> =>
  furtherKeysOf === undefined
    ? {}
    : {
        furtherKeysOf: (event, values) => {
          const further = furtherKeysOf(event, values);
          if (further.length === 0) return further;
          const known = new Set(keysOf(event));
          const fresh = [...new Set(further)].filter((subKey) => !known.has(subKey));
          return fresh.map((subKey) => `${event.key}|${subKey}`);
        },
      };

/**
 * Declares several remembered values under one record key. The state is the list of all values, and
 * a processor returns it with the changed ones replaced.
 */
export const remembersBy = <Value>(memory: {
  readonly name: string;
  readonly keyedBy: string;
  readonly driver: "fast" | "durable";
  readonly keysOf: (event: Recorded<any>) => readonly string[];
  /** Further sub-keys, which the values of `keysOf` name, or values of such keys. */
  readonly furtherKeysOf?: (event: Recorded<any>, values: readonly (Value | undefined)[]) => readonly string[];
  readonly encode: (value: Value) => Uint8Array;
  readonly decode: (bytes: Uint8Array) => Value;
}): MemoryOf<Readonly<Record<string, Value>>> => ({
  name: memory.name,
  keyedBy: memory.keyedBy,
  driver: memory.driver,
  keysOf: (event) => memory.keysOf(event).map((subKey) => `${event.key}|${subKey}`),
  ...furtherOf(memory),
  decode: memory.decode,
  encode: memory.encode,
  stateOf: (keys, values) => {
    const state: Record<string, Value> = {};
    for (const [n, value] of values.entries()) if (value !== undefined) state[subKeyOf(keys[n]!)] = value;
    return state;
  },
  changes: (keys, before, after) =>
    before === after
      ? []
      : keys
          .filter((key) => after[subKeyOf(key)] !== before[subKeyOf(key)])
          .map((key) => ({ key, value: after[subKeyOf(key)]! })),
});

/** The part after the record key. Record keys are free text, but sub-keys contain no `|`. */
const subKeyOf = (key: string): string => key.slice(key.lastIndexOf("|") + 1);
