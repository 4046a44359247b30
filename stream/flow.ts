// The grammar: what a pipeline is made of. Types and constructors; it knows no domain and opens
// nothing.

/** Milliseconds since 1970 in UTC; a number, because a Date can be changed by its holder. */
export type UnixMs = number;

/** Where a record stands in the log. Offsets stay below 2^53, so a number holds them exactly. */
export interface Position {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
}

/**
 * One event as the runner hands it over. `at` is event time, `receivedAt` when an edge took it,
 * `position` where it entered its chain (so that it does not depend on how stages are hosted); none
 * of them is "now".
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
 * A name, a key and a codec in one constant. `encode` and `decode` together make T invariant: a
 * stage reads and writes exactly this record.
 * Both are synchronous and pure: `body` is Avro without the wire header, which infra/avro/wire.ts
 * adds once schema ids are resolved at start.
 */
export interface Topic<T> {
  readonly name: string;
  /**
   * What the key means, e.g. `client_id:did`; stages are chained only where this stays the same.
   */
  readonly keyedBy: string;
  readonly partitions: number;
  /** The Avro schema of a value, envelope included, as registered under `<name>-value`. */
  readonly schema: object;
  readonly idOf: (data: T) => string;
  readonly keyOf: (data: T) => string;
  /**
   * Writes the Avro body into `into` at `offset`; returns the end, or a negative number when it
   * does not fit. Throws on data that is not a T.
   */
  readonly encode: (event: Recorded<T>, origin: Position | null, into: Buffer, offset: number) => number;
  /**
   * Reads an Avro body that was written under `writer` (null: this topic's own schema). Throws
   * Unreadable on anything else.
   */
  readonly decode: (body: Buffer, read: Position, writer: object | null) => Recorded<T>;
  /**
   * What `decode` answers for the body of this topic's own schema that begins at `from`, read where
   * it lies, a field when it is asked for. Null for what `decode` is to read instead, or to refuse.
   */
  readonly view: (value: Buffer, from: number, read: Position) => Recorded<T> | null;
}

/**
 * `Out` maps output names to records, so an emitted event says where it goes and cannot carry
 * another output's data.
 */
export type Emitted<Out> = {
  [Name in keyof Out]: {
    readonly output: Name;
    readonly data: Out[Name];
    /** Event time, when it is not that of the input: a refund carries the time of its sale. */
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
 * Every event ends in exactly one of these. A throw is none of them: it is retried, then stops the
 * worker. The state as received means: no new version.
 */
export type Outcome<Out, State, Reason> = Emit<Out, State> | Drop<State, Reason> | Reject<Reason>;

/**
 * Pure and synchronous: no clock, no I/O, no randomness. Same arguments, same outcome, for ever.
 * Null means "none".
 */
export type Processor<In, Out, State = null, Facts = null, Reason extends string = never> = (
  event: Recorded<In>,
  state: State,
  facts: Facts,
) => Outcome<Out, State, Reason>;

/**
 * What a stage may remember. `keysOf` names the values that an event meets: its record key for
 * `remembers`, several sub-keys inside it for `remembersBy`, none when the event has no use for
 * memory (then nothing is read). A value that `changes` returns becomes a new version.
 * `durable` decides money: it also answers an event decided before with its recorded outcome.
 */
export interface MemoryOf<State> {
  readonly name: string;
  /** The same as its topic's: memory never crosses partitions. */
  readonly keyedBy: string;
  readonly driver: "fast" | "durable";
  readonly keysOf: (event: Recorded<any>) => readonly string[];
  /**
   * More keys that the event meets, named by the values of `keysOf`. What `stateOf` and `changes`
   * get is `keysOf`, then these.
   */
  readonly furtherKeysOf?: (event: Recorded<any>, values: readonly any[]) => readonly string[];
  /**
   * Durable values are read and written once a batch, however many events meet them: what `decode`
   * makes of the bytes of `encode` must be no different to a processor.
   */
  readonly decode: (bytes: Uint8Array) => unknown;
  readonly encode: (value: any) => Uint8Array;
  /** Assembles the state from the values of `keys` (undefined: nothing remembered yet). */
  readonly stateOf: (keys: readonly string[], values: readonly any[]) => State;
  /**
   * The keys whose value differs from `before`, with the value to remember. Compared by reference:
   * the state as received means nothing new.
   */
  readonly changes: (
    keys: readonly string[],
    before: State,
    after: State,
  ) => readonly { readonly key: string; readonly value: unknown }[];
}

/**
 * A read-only picture that the app knows how to take, e.g. of reference data; `View` is what a
 * facts loader gets.
 */
export interface View<T> {
  readonly view: string;
  readonly of?: T;
}

/**
 * Supplied by the app: a view that is known to hold everything recorded before `asOf`. A topology
 * opens nothing.
 */
export type Read = <T>(view: View<T>, asOf: UnixMs) => Promise<T>;

/**
 * What a stage may look up: one bulk read for the batch, then a pure picture for each event: valid
 * at its event time, as known when it was received.
 */
export interface FactsFor<In, Facts> {
  readonly name: string;
  /** A store that is asked for each batch: the stage stands still while that one is away. */
  readonly store?: "redis";
  readonly load: (batch: readonly Recorded<In>[], read: Read) => Promise<(event: Recorded<In>) => Facts>;
}

/**
 * Bound to one transaction or insert, which the runner opens and ends. `table` holds what its store
 * needs to write it, rows are positional or named as its driver says.
 */
export type Write = (table: { readonly name: string }, rows: readonly unknown[]) => Promise<void>;

type Needs<Field extends string, Value, Source> = [Value] extends [null]
  ? { readonly [F in Field]?: never }
  : { readonly [F in Field]: Source };
type Outputs<Out> = { readonly [Name in keyof Out]: Topic<Out[Name]> };

/** An id that stands for two things: the dead letter's code, and a message that names the first. */
export interface Conflict {
  readonly reason: string;
  readonly message: string;
}

/**
 * The processor's type decides and the wires must fit: NoInfer puts each error on the wrong wire.
 * `name` is part of ids and groups: never rename it.
 */
export type Stage<In, Out, State, Facts, Reason extends string> = {
  readonly name: string;
  /**
   * Raise it when what the stage decides changes: the past is then left to `tributary reprocess`,
   * and a rewind over the change is refused. 1 when left out.
   */
  readonly revision?: number;
  readonly from: Topic<NoInfer<In>>;
  readonly run: Processor<In, Out, State, Facts, Reason>;
  readonly to: NoInfer<Outputs<Out>>;
  /**
   * With durable memory: why an event whose id was decided before is another event than the one
   * that left these outputs; null: it is the same, and answered with them.
   */
  readonly conflict?: (event: Recorded<NoInfer<In>>, outputs: readonly Recorded<unknown>[]) => Conflict | null;
} & NoInfer<Needs<"memory", State, MemoryOf<State>>> &
  NoInfer<Needs<"facts", Facts, FactsFor<In, Facts>>>;

/** What an edge knows of a request beside its body. Headers are lower-case. */
export interface Arrival {
  readonly receivedAt: UnixMs;
  /** Who is authenticated: a client id for a token, else an address. */
  readonly sender: string;
  readonly address: string | null;
  readonly header: (name: string) => string | undefined;
}

/**
 * Why an edge refused one event of a body, in the words of the sender: where it is, what is wrong,
 * whether sending it again can help.
 */
export interface Refusal {
  readonly code: string;
  readonly field: string | null;
  readonly message: string;
  readonly retryable: boolean;
}
/**
 * The body as a whole cannot be used: nothing of it is taken. `pointer` is a JSON Pointer to the
 * place; the code `bad_json` means that there is no place, for it cannot be parsed.
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

/** What a request brings, parsed; one that brings a single event has a list of one. */
export interface Events {
  readonly events: readonly unknown[];
}

/**
 * Where requests of others enter. Thin: `accepts` parses and throws BadBody with the place of the
 * problem, `admit` is pure and answers for each event of the body, in order, as it is asked for.
 * A sender is answered once its events are stored: in the log, else on the disk of the edge, else
 * in object storage (modules/intake/path/host-edge.ts runs it).
 */
export interface Edge<Body extends Events, Facts, Out> {
  /** Also the `source` of its events, by which their dead letters are routed. */
  readonly name: string;
  readonly on: `${"GET" | "POST" | "PUT" | "GET|POST"} /${string}`;
  readonly accepts: (body: unknown) => Body;
  readonly admit: (body: NoInfer<Body>, arrival: Arrival, facts: Facts) => Iterable<Admission<Out>>;
  readonly to: Topic<NoInfer<Out>>;
}

/**
 * Where records of our own enter: nothing of them is refused, and the same given again is the same
 * record. `at` is when it was decided or saved, and when it was received unless `receivedAt` says
 * otherwise.
 */
export interface Feed<Given, Out> {
  readonly name: string;
  /** In words, or `table <name>` where an outbox feeds it. */
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
 * Writing the same rows twice leaves the table as writing them once: `key` names the columns that
 * make it so. `tenantOf` feeds row-level security.
 */
export interface Table<Row> {
  readonly name: string;
  readonly store: "clickhouse" | "postgres" | "redis";
  readonly key: readonly (keyof Row & string)[];
  readonly tenantOf: (row: Row) => number;
  /**
   * May call `write` several times; all calls belong to one transaction (Postgres) or are one
   * insert each (ClickHouse).
   */
  readonly write: (rows: readonly Row[], write: Write) => Promise<void>;
  /**
   * What keeps summaries of this table has to know what was touched: written once the rows are
   * stored, and before the offsets move.
   */
  readonly marks?: Marks<Row>;
  /** Why the state hash leaves this table out; without a reason it is hashed. */
  readonly unhashed?: string;
  /** No figure is read from it: `as_of` of figures does not wait for its sink. */
  readonly isBesideFigures?: true;
}

/**
 * Rows of another table, in whatever store, that name what some rows of this one touched. Naming
 * too much costs work and is never wrong.
 */
export interface Marks<Row> {
  readonly of: (rows: readonly Row[]) => readonly any[];
  readonly into: Table<any>;
}

/**
 * A sink of the records themselves, byte for byte: nothing is decoded, so what cannot be read is
 * kept too.
 */
export interface Copy<T> {
  readonly name: string;
  readonly from: Topic<T>;
  readonly into: Files;
}

/** Files of records by partition and offsets. Storing the same records twice leaves one file. */
export interface Files {
  readonly name: string;
  readonly store: "objects";
  /** Why the state hash leaves these files out. */
  readonly unhashed?: string;
}

// Nodes of different records share one list: checked above, erased here. These are the only `any`s.
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
}
export type AnyEdge = { readonly is: "edge" } & Edge<any, any, any>;
export type AnyFeed = { readonly is: "edge" } & Feed<any, any>;
export type AnySink = { readonly is: "sink" } & Sink<any, any>;
export type AnyCopy = { readonly is: "sink" } & Copy<any>;
/** What reads a topic, and so belongs to a consumer group. */
export type AnyReader = AnyStage | AnySink | AnyCopy;
export type Node = AnyEdge | AnyFeed | AnyReader;

/** Of the sinks, those that write rows. */
export const writesRows = (node: AnySink | AnyCopy): node is AnySink => "rows" in node;

/**
 * Where rejected bytes go: chosen by the event they hold (undefined: unreadable), so that the
 * grammar need not know what a source is.
 */
export type DeadLetterRoute = (event: Recorded<any> | undefined) => string;

export interface Topology {
  readonly name: string;
  readonly nodes: readonly Node[];
  readonly deadLetters: DeadLetterRoute;
}
/** The same nodes with their names and types, for what is run from the topology by its name. */
export interface Declared<Nodes extends readonly Node[]> extends Topology {
  readonly declared: Nodes;
}

/** A node that is known by its name. */
type NamedNode<Kind, Name extends string, Node> = Node & { readonly is: Kind; readonly name: Name };

export const edge: {
  <Given, Out, const Name extends string = string>(
    node: Feed<Given, Out> & { readonly name: Name },
  ): NamedNode<"edge", Name, Feed<Given, Out>>;
  // The last one: what is wrong with a wiring is said of it.
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

/** Checks that what `of` names fits the table it goes into. */
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

/** One value a record key; `when` leaves out events that have no use for it. */
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

/**
 * Several values inside one record key; the state is what is remembered of them, and a processor
 * returns it with the changed ones replaced.
 */
export const remembersBy = <Value>(memory: {
  readonly name: string;
  readonly keyedBy: string;
  readonly driver: "fast" | "durable";
  readonly keysOf: (event: Recorded<any>) => readonly string[];
  readonly encode: (value: Value) => Uint8Array;
  readonly decode: (bytes: Uint8Array) => Value;
}): MemoryOf<Readonly<Record<string, Value>>> => ({
  name: memory.name,
  keyedBy: memory.keyedBy,
  driver: memory.driver,
  keysOf: (event) => memory.keysOf(event).map((subKey) => `${event.key}|${subKey}`),
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

/** The part after the record key; record keys are free text, sub-keys hold no `|`. */
const subKeyOf = (key: string): string => key.slice(key.lastIndexOf("|") + 1);
