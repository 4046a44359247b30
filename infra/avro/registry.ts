// The only module that talks to the schema registry: at the start and for an unknown id, never for
// an event.
import { COMPATIBILITY, SchemaRegistry, SchemaType } from "@kafkajs/confluent-schema-registry";
import { retry } from "../runtime/timing/retry.ts";
import type { SchemaIds, SchemaTopic } from "./record-wire.ts";

export interface RegistrySettings {
  readonly url: string;
  /** The prefix of the cluster's topics: subjects are `<prefix><topic>-value`. */
  readonly topicPrefix?: string;
  /** How long a request is repeated while the registry is unreachable. */
  readonly deadlineMs?: number;
}

interface SchemaPlan {
  readonly subject: string;
  /**
   * registered: nothing to do. new: the first schema of the subject. changed: a further version,
   * which the registry may still find incompatible.
   */
  readonly state: "registered" | "new" | "changed";
}

export interface Registry extends SchemaIds {
  readonly plan: (topics: readonly SchemaTopic[]) => Promise<readonly SchemaPlan[]>;
  /**
   * Registers the missing schemas as BACKWARD_TRANSITIVE, because a replay reads the oldest
   * records. Throws IncompatibleSchema, which names the subject. Returns the ids by subject.
   */
  readonly apply: (topics: readonly SchemaTopic[]) => Promise<ReadonlyMap<string, number>>;
}

/** The registry refuses a schema that cannot read records that are already in the log. */
export class IncompatibleSchema extends Error {
  readonly verdict = "fatal";
  constructor(subject: string, reason: string) {
    super(`${subject}: the new schema cannot read what older ones wrote: ${reason}`);
    this.name = "IncompatibleSchema";
  }
}

/** The registry did not answer before the deadline, or answered that it cannot now. */
export class RegistryAway extends Error {
  readonly verdict = "transient";
  constructor(cause: Error) {
    super(cause.message, { cause });
    this.name = "RegistryAway";
  }
}

const NOT_FOUND = 404;
const CONFLICT = 409;
/** Statuses that a repeated question would get again. */
const FINAL: readonly number[] = [NOT_FOUND, CONFLICT, 401, 403, 422];

const statusOf = (error: unknown): number | undefined =>
  (error as { status?: number; cause?: { status?: number } }).status;

export const openRegistry = ({ url, topicPrefix = "", deadlineMs = 10_000 }: RegistrySettings): Registry => {
  // Its own retries are off, because they repeat client errors too. The URL may carry
  // user:password.
  const { username, password, origin, pathname } = new URL(url);
  const client = new SchemaRegistry({
    host: origin + pathname.replace(/\/$/, ""),
    retry: { retries: 0 },
    ...(username === ""
      ? {}
      : { auth: { username: decodeURIComponent(username), password: decodeURIComponent(password) } }),
  });
  const subjectOf = (topic: SchemaTopic): string => `${topicPrefix}${topic.name}-value`;
  const ask = asking(deadlineMs);
  const idOf: Registry["idOf"] = (topic) => ask(() => registered(client, subjectOf(topic), textOf(topic)));
  const planOf = async (topic: SchemaTopic): Promise<SchemaPlan> => {
    const subject = subjectOf(topic);
    if ((await idOf(topic)) !== null) return { subject, state: "registered" };
    return { subject, state: (await ask(() => client.getLatestSchemaId(subject))) === null ? "new" : "changed" };
  };

  const register = async (topic: SchemaTopic): Promise<number> => {
    const subject = subjectOf(topic);
    const schema = { type: SchemaType.AVRO as const, schema: textOf(topic) };
    const compatibility = COMPATIBILITY.BACKWARD_TRANSITIVE;
    const registration = await ask(() => client.register(schema, { subject, compatibility })).catch((error) => {
      throw statusOf(error) === CONFLICT ? new IncompatibleSchema(subject, error.message) : error;
    });
    if (registration === null) throw new Error(`${subject}: the registry has no such route`);
    return registration.id;
  };

  return {
    idOf,
    schemaOf: async (schemaId) => {
      // The client parses a schema and loses attributes that it does not know, such as our logical
      // type, so the registered text is used.
      const found = await ask(
        async () => (await apiOf(client).Schema.find({ id: schemaId })).data() as { schema: string },
      );
      return found === null ? null : JSON.parse(found.schema);
    },
    plan: (topics) => Promise.all(topics.map(planOf)),
    apply: async (topics) => {
      const ids = new Map<string, number>();
      for (const topic of topics) ids.set(subjectOf(topic), await register(topic));
      return ids;
    },
  };
};

const textOf = ({ schema }: SchemaTopic): string => JSON.stringify(schema);

/**
 * Answers null for what does not exist. Repeats the question while the registry is away; its client
 * reports a refused connection as status 400 without a body.
 */
const asking =
  (deadlineMs: number) =>
  <T>(question: () => Promise<T>): Promise<T | null> =>
    retry(question, {
      deadlineMs,
      maxMs: 1_000,
      isTransient: (error) => !FINAL.includes(statusOf(error) ?? 0),
    }).catch((error) => {
      const status = statusOf(error);
      if (status === NOT_FOUND) return null;
      throw status === undefined || FINAL.includes(status) ? error : new RegistryAway(error);
    });

/**
 * The routes beneath the client, which does not export them: two of its questions hide the status
 * or the text of the answer.
 */
const apiOf = (client: SchemaRegistry) =>
  (client as unknown as { api: { Schema: { find: Route }; Subject: { registered: Route } } }).api;
type Route = (given: object) => Promise<{ data: () => any }>;

const registered = async (client: SchemaRegistry, subject: string, schema: string): Promise<number> =>
  (await apiOf(client).Subject.registered({ subject, body: { schema } })).data().id;
