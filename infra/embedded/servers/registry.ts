// The schema registry: the routes of Confluent's REST interface that clients use, over the topic
// `_schemas`.
import type { Server } from "node:http";
import express, { type Request, type Response } from "express";
import { refusalOf } from "../../runtime/same-machine.ts";
import { incompatibilities, isLevel, LEVELS, type Level, parseSchema } from "./compatibility.ts";
import { openRegistryLog, type RegistryLog, type Version } from "./registry-log.ts";

const CONTENT_TYPE = "application/vnd.schemaregistry.v1+json";
// A replay reads the oldest records with the newest code, so a schema must read records of all
// earlier ones, and not only of the last.
const DEFAULT_LEVEL: Level = "BACKWARD_TRANSITIVE";

/** An answer other than success, with Confluent's own code. */
class Refusal extends Error {
  readonly status: number;
  readonly code: number;
  constructor(code: number, message: string) {
    super(message);
    this.code = code;
    this.status = code < 1_000 ? code : Math.floor(code / 100);
  }
}

/** Reads the topic to its end, then listens on loopback. */
export async function serveRegistry(options: {
  readonly port: number;
  readonly brokers: string;
}): Promise<{ readonly close: () => Promise<void> }> {
  const log = await openRegistryLog(options.brokers);
  const app = express();
  app.disable("x-powered-by");
  app.use((request, _response, next) => {
    const refusal = refusalOf(request.headers);
    if (refusal !== undefined) throw new Refusal(403, refusal);
    next();
  });
  app.use(express.text({ type: () => true, limit: "4mb" }));
  addSubjects(app, log);
  addConfig(app, log);
  app.use((_request, response) => answer(response, 404, { error_code: 404, message: "HTTP 404 Not Found" }));
  app.use((error: unknown, _request: Request, response: Response, _next: unknown) => {
    const { status, code, message } =
      error instanceof Refusal
        ? error
        : new Refusal(50_001, `Error in the backend data store: ${(error as Error).message}`);
    answer(response, status, { error_code: code, message });
  });
  const server = await new Promise<Server>((resolve, reject) => {
    const listening: Server = app.listen(options.port, "127.0.0.1", (error?: Error) =>
      error === undefined ? resolve(listening) : reject(error),
    );
  });
  return {
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
      }),
  };
}

function addSubjects(app: express.Express, log: RegistryLog): void {
  // Concurrent registrations must not take the same id or version.
  const oneByOne = queue();

  app.get("/", (_request, response) => answer(response, 200, {}));
  app.get("/subjects", (_request, response) => answer(response, 200, log.subjects()));
  app.get("/schemas/types", (_request, response) => answer(response, 200, ["AVRO"]));
  app.get("/schemas/ids/:id", (request, response) =>
    answer(response, 200, { schema: schemaById(log, request)[0]!.schema }),
  );
  app.get("/schemas/ids/:id/versions", (request, response) =>
    answer(
      response,
      200,
      schemaById(log, request).map(({ subject, version }) => ({ subject, version })),
    ),
  );
  app.get("/subjects/:subject/versions", (request, response) =>
    answer(
      response,
      200,
      versionsOf(log, request).map(({ version }) => version),
    ),
  );
  app.get("/subjects/:subject/versions/:version", (request, response) =>
    answer(response, 200, versionOf(log, request)),
  );
  app.get("/subjects/:subject/versions/:version/schema", (request, response) => {
    response.type(CONTENT_TYPE).send(versionOf(log, request).schema);
  });
  app.post("/subjects/:subject", (request, response) => {
    const schema = schemaIn(request);
    const found = versionsOf(log, request).find((version) => version.schema === schema);
    if (found === undefined) throw new Refusal(40_403, "Schema not found");
    answer(response, 200, found);
  });
  app.post("/subjects/:subject/versions", async (request, response) => {
    const id = await oneByOne(() => register(log, subjectIn(request), schemaIn(request)));
    answer(response, 200, { id });
  });
  app.post("/compatibility/subjects/:subject/versions", (request, response) => {
    const subject = subjectIn(request);
    compatible(request, response, log.versions(subject), levelOf(log, subject));
  });
  app.post("/compatibility/subjects/:subject/versions/:version", (request, response) =>
    compatible(request, response, [versionOf(log, request)], levelOf(log, subjectIn(request))),
  );
}

function addConfig(app: express.Express, log: RegistryLog): void {
  const put = (subjectOf: (request: Request) => string | null) => async (request: Request, response: Response) => {
    const { compatibility } = bodyOf(request);
    if (!isLevel(compatibility))
      throw new Refusal(42_203, `Invalid compatibility level. Valid values are ${LEVELS.join(", ")}`);
    await log.setLevel(subjectOf(request), compatibility);
    answer(response, 200, { compatibility });
  };
  app.get("/config", (_request, response) =>
    answer(response, 200, { compatibilityLevel: log.level(null) ?? DEFAULT_LEVEL }),
  );
  app.put(
    "/config",
    put(() => null),
  );
  app.get("/config/:subject", (request, response) => {
    const subject = subjectIn(request);
    const own = log.level(subject);
    if (own === undefined && request.query.defaultToGlobal !== "true")
      throw new Refusal(40_408, `Subject '${subject}' does not have subject-level compatibility configured`);
    answer(response, 200, { compatibilityLevel: own ?? levelOf(log, subject) });
  });
  app.put("/config/:subject", put(subjectIn));
}

/**
 * Returns the id of a schema under a subject: its existing id, or that of a new version, once Kafka
 * has it.
 */
async function register(log: RegistryLog, subject: string, schema: string): Promise<number> {
  const earlier = log.versions(subject);
  const same = earlier.find((version) => version.schema === schema);
  if (same !== undefined) return same.id;
  const reasons = incompatibilities(
    schema,
    earlier.map((version) => version.schema),
    levelOf(log, subject),
  );
  if (reasons.length > 0)
    throw new Refusal(
      409,
      `Schema being registered is incompatible with an earlier schema for subject "${subject}": ${reasons.join("; ")}`,
    );
  const id = log.idOf(schema) ?? log.nextId();
  await log.addVersion({ subject, version: (earlier.at(-1)?.version ?? 0) + 1, id, schema });
  return id;
}

function compatible(request: Request, response: Response, earlier: readonly Version[], level: Level): void {
  const messages = incompatibilities(
    schemaIn(request),
    earlier.map(({ schema }) => schema),
    level,
  );
  answer(response, 200, {
    is_compatible: messages.length === 0,
    ...(messages.length > 0 && request.query.verbose === "true" && { messages }),
  });
}

const levelOf = (log: RegistryLog, subject: string): Level => log.level(subject) ?? log.level(null) ?? DEFAULT_LEVEL;
const subjectIn = (request: Request): string => String(request.params.subject);

function bodyOf(request: Request): Record<string, unknown> {
  try {
    const body: unknown = JSON.parse(request.body as string);
    if (typeof body === "object" && body !== null) return body as Record<string, unknown>;
  } catch {
    // Reported below, like a body that is not an object.
  }
  throw new Refusal(422, "The body must be a JSON object.");
}

/**
 * The schema of a request without its white space: two texts that differ only in that are one
 * schema.
 */
function schemaIn(request: Request): string {
  const { schema, schemaType } = bodyOf(request);
  if (typeof schema !== "string" || (schemaType !== undefined && schemaType !== "AVRO"))
    throw new Refusal(42_201, "Invalid schema: only Avro is taken here");
  try {
    parseSchema(schema);
  } catch (error) {
    throw new Refusal(42_201, `Invalid schema: ${(error as Error).message}`);
  }
  return JSON.stringify(JSON.parse(schema));
}

function schemaById(log: RegistryLog, request: Request): readonly Version[] {
  const found = log.byId(Number(request.params.id));
  if (found.length === 0) throw new Refusal(40_403, `Schema ${request.params.id} not found`);
  return found;
}

function versionsOf(log: RegistryLog, request: Request): readonly Version[] {
  const versions = log.versions(subjectIn(request));
  if (versions.length === 0) throw new Refusal(40_401, `Subject '${subjectIn(request)}' not found.`);
  return versions;
}

function versionOf(log: RegistryLog, request: Request): Version {
  const versions = versionsOf(log, request);
  const wanted = String(request.params.version);
  const found =
    wanted === "latest" || wanted === "-1"
      ? versions.at(-1)
      : versions.find(({ version }) => String(version) === wanted);
  if (found !== undefined) return found;
  throw /^\d+$/.test(wanted)
    ? new Refusal(40_402, `Version ${wanted} not found.`)
    : new Refusal(42_202, `The specified version '${wanted}' is not a valid version id.`);
}

const answer = (response: Response, status: number, body: unknown): void => {
  response.status(status).type(CONTENT_TYPE).send(JSON.stringify(body));
};

/** Runs tasks one after the other, each whether or not the previous one failed. */
function queue(): <T>(task: () => Promise<T>) => Promise<T> {
  let tail: Promise<unknown> = Promise.resolve();
  return (task) => {
    const done = tail.then(task);
    tail = done.catch(() => undefined);
    return done;
  };
}
