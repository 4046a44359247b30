// The only module that talks to the schema registry, by five of its routes: at start and on an
// unknown id, never for an event. The usual client of it keeps the status and the text of answers
// to itself, and takes a tenth of a second of CPU to load, at the start of every process.
import { request as requestOverHttp } from "node:http";
import { request as requestOverTls } from "node:https";
import { text } from "node:stream/consumers";
import { retry } from "../runtime/timing/retry.ts";
import type { SchemaIds, Schemed } from "./wire.ts";

export interface RegistrySettings {
  readonly url: string;
  /** The prefix of the cluster's topics: subjects are `<prefix><topic>-value`. */
  readonly topicPrefix?: string;
  /** How long an unreachable registry is asked again. */
  readonly deadlineMs?: number;
}

export interface SchemaPlan {
  readonly subject: string;
  /**
   * registered: nothing to do. new: the subject's first. changed: a further version, which the
   * registry may yet find incompatible.
   */
  readonly state: "registered" | "new" | "changed";
}

export interface Registry extends SchemaIds {
  readonly plan: (topics: readonly Schemed[]) => Promise<readonly SchemaPlan[]>;
  /**
   * Registers what is not, BACKWARD_TRANSITIVE: a replay reads the oldest records. Throws
   * IncompatibleSchema, naming the subject. Answers the ids by subject.
   */
  readonly apply: (topics: readonly Schemed[]) => Promise<ReadonlyMap<string, number>>;
}

/** The registry refuses a schema that could not read what is already in the log. */
export class IncompatibleSchema extends Error {
  readonly verdict = "fatal";
  constructor(subject: string, reason: string) {
    super(`${subject}: the new schema cannot read what older ones wrote: ${reason}`);
    this.name = "IncompatibleSchema";
  }
}

/** It did not answer until the deadline, or answered that it cannot now. */
export class RegistryAway extends Error {
  readonly verdict = "transient";
  constructor(cause: Error) {
    super(cause.message, { cause });
    this.name = "RegistryAway";
  }
}

/** It answered, and asked again it answers the same. */
class RegistryRefuses extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.name = "RegistryRefuses";
    this.status = status;
  }
}

const NOT_FOUND = 404;
const CONFLICT = 409;
const FINAL: readonly number[] = [NOT_FOUND, CONFLICT, 401, 403, 422];
const SILENCE_MS = 10_000;
const CONTENT_TYPE = "application/vnd.schemaregistry.v1+json";
const LEVEL = "BACKWARD_TRANSITIVE";

type Request = (method: "GET" | "POST" | "PUT", path: string, body?: object) => Promise<any>;

/**
 * The URL may carry user:password. Rejects with RegistryRefuses for an answer that is final, with
 * RegistryAway for every other one and for none.
 */
const requesting = (url: string): Request => {
  const { username, password, origin, pathname, protocol } = new URL(url);
  const base = origin + pathname.replace(/\/$/, "");
  const auth = username === "" ? null : `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  const open = protocol === "https:" ? requestOverTls : requestOverHttp;
  const send = (method: string, path: string, body: object | undefined): Promise<[status: number, body: string]> =>
    new Promise((resolve, reject) => {
      const settings = { method, auth, timeout: SILENCE_MS, headers: { "Content-Type": CONTENT_TYPE } };
      const request = open(base + path, settings, (response) =>
        text(response).then((body) => resolve([response.statusCode!, body]), reject),
      );
      request.on("timeout", () => request.destroy(new Error(`no answer within ${SILENCE_MS / 1_000} s`)));
      request.on("error", reject);
      request.end(body === undefined ? undefined : JSON.stringify(body));
    });
  return async (method, path, body) => {
    try {
      const [status, answered] = await send(method, path, body);
      const answer = JSON.parse(answered);
      if (status >= 200 && status < 300) return answer;
      const message = answer.message ?? `status ${status}`;
      throw FINAL.includes(status) ? new RegistryRefuses(status, message) : new Error(message);
    } catch (error) {
      throw error instanceof RegistryRefuses ? error : new RegistryAway(error as Error);
    }
  };
};

export const openRegistry = ({ url, topicPrefix = "", deadlineMs = 10_000 }: RegistrySettings): Registry => {
  const request = requesting(url);
  const subjectOf = (topic: Schemed): string => `${topicPrefix}${topic.name}-value`;
  const schemaOfTopic = (topic: Schemed) => ({ schema: JSON.stringify(topic.schema) });

  /** Answers null for what does not exist; repeats while the registry is away. */
  const ask: Request = (...asked) =>
    retry(() => request(...asked), {
      deadlineMs,
      maxMs: 1_000,
      isTransient: (error) => error instanceof RegistryAway,
    }).catch((error) => {
      if (error instanceof RegistryRefuses && error.status === NOT_FOUND) return null;
      throw error;
    });

  const idOf: Registry["idOf"] = async (topic) =>
    (await ask("POST", `/subjects/${subjectOf(topic)}`, schemaOfTopic(topic)))?.id ?? null;

  /** The level stands before the first schema, so that no version of the subject goes unchecked. */
  const setLevel = async (subject: string): Promise<void> => {
    const level = (await ask("GET", `/config/${subject}`))?.compatibilityLevel;
    if (level === undefined) await ask("PUT", `/config/${subject}`, { compatibility: LEVEL });
    else if (level !== LEVEL) throw new Error(`${subject}: its compatibility is ${level}, and must be ${LEVEL}`);
  };

  return {
    idOf,
    schemaOf: async (schemaId) => {
      const found = await ask("GET", `/schemas/ids/${schemaId}`);
      return found === null ? null : JSON.parse(found.schema);
    },
    plan: (topics) =>
      Promise.all(
        topics.map(async (topic): Promise<SchemaPlan> => {
          const subject = subjectOf(topic);
          if ((await idOf(topic)) !== null) return { subject, state: "registered" };
          const newest = await ask("GET", `/subjects/${subject}/versions/latest`);
          return { subject, state: newest === null ? "new" : "changed" };
        }),
      ),
    apply: async (topics) => {
      const ids = new Map<string, number>();
      for (const topic of topics) {
        const subject = subjectOf(topic);
        await setLevel(subject);
        const registration = await ask("POST", `/subjects/${subject}/versions`, schemaOfTopic(topic)).catch((error) => {
          throw error instanceof RegistryRefuses && error.status === CONFLICT
            ? new IncompatibleSchema(subject, error.message)
            : error;
        });
        if (registration === null) throw new Error(`${subject}: the registry has no such route`);
        ids.set(subject, registration.id);
      }
      return ids;
    },
  };
};
