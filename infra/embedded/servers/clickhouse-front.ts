// The HTTP side of the embedded ClickHouse: accepts the requests of `@clickhouse/client`, and
// answers in the form of a server.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { gunzipSync } from "node:zlib";
import { isSameSecret, refusalOf } from "../../runtime/same-machine.ts";
import { CLICKHOUSE_APP, CLICKHOUSE_OWNER } from "../services/store-users.ts";
import { type Answer, type Engine, openEngine } from "./clickhouse-engine.ts";
import {
  insertTarget,
  isMany,
  kindOf,
  namesFile,
  type StatementKind,
  withParameters,
  withSettings,
} from "./clickhouse-sql.ts";

// Parameters of the HTTP interface that are not settings of a query.
const NOT_SETTINGS = new Set(
  (
    "query database default_format query_id session_id session_timeout session_check user password " +
    "role compress decompress enable_http_compression " +
    "wait_end_of_query buffer_size quota_key stacktrace close_session http_zlib_compression_level " +
    "send_progress_in_http_headers " +
    "http_headers_progress_interval_ms cancel_http_readonly_queries_on_client_close"
  ).split(" "),
);

// One insert of a sink has one fetch of 32 MiB, written as JSON; beyond this limit the process
// would run out of memory before the engine refuses.
const BODY_LIMIT_BYTES = 256 * 1024 * 1024;

// Error codes by HTTP status, as in ClickHouse's src/Server/HTTPHandler.cpp. Every other error is
// 500.
const NOT_FOUND = new Set([46, 47, 50, 56, 60, 73, 81, 115]);
const FORBIDDEN = new Set([497, 516]);
const BAD_REQUEST = new Set([6, 26, 27, 33, 36, 38, 41, 42, 43, 53, 62, 69, 70, 72, 117, 130, 131, 395, 456, 457]);

/**
 * Opens the engine and listens on loopback. Closing the returned server ends running statements
 * first.
 */
export async function serveClickhouse(options: {
  readonly port: number;
  readonly folder: string;
  readonly ownerPassword: string;
  readonly appPassword: string;
}): Promise<{ readonly close: () => Promise<void> }> {
  const engine = await openEngine(options.folder);
  const passwords = new Map([
    [CLICKHOUSE_OWNER, options.ownerPassword],
    [CLICKHOUSE_APP, options.appPassword],
  ]);
  const server: Server = createServer((request, response) => {
    answer({ engine, passwords }, request, response).catch((error: unknown) => refuse(response, error));
  });
  // The client keeps sockets open between inserts; a shorter time than its own would reset a
  // request that is on its way.
  server.keepAliveTimeout = 65_000;
  server.requestTimeout = 0;
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(options.port, "127.0.0.1", resolve));
  return {
    close: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeIdleConnections();
      await engine.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

interface Front {
  readonly engine: Engine;
  readonly passwords: ReadonlyMap<string, string>;
}

/** The user that a request names with its password, in the forms of the client and of curl. */
function userOf(passwords: Front["passwords"], request: IncomingMessage): string {
  const [scheme, basic = ""] = (request.headers.authorization ?? "").split(" ");
  const [, user, password] =
    scheme === "Basic"
      ? (/^([^:]*):(.*)$/s.exec(Buffer.from(basic, "base64").toString("utf8")) ?? [])
      : [undefined, header(request, "x-clickhouse-user"), header(request, "x-clickhouse-key")];
  const expected = user === undefined ? undefined : passwords.get(user);
  if (user === undefined || expected === undefined || !isSameSecret(password ?? "", expected))
    throw new Error(
      `Code: 516. DB::Exception: ${user ?? "default"}: Authentication failed: password is incorrect, or there is ` +
        "no user with such name. The address with both is in run.json of the stack. (AUTHENTICATION_FAILED)",
    );
  return user;
}

async function answer({ engine, passwords }: Front, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const refusal = refusalOf(request.headers);
  if (refusal !== undefined) throw new Error(`Code: 516. DB::Exception: ${refusal}. (AUTHENTICATION_FAILED)`);
  const url = new URL(request.url ?? "/", "http://localhost");
  if (
    url.pathname === "/ping" ||
    (request.method === "GET" && url.pathname === "/" && !url.searchParams.has("query"))
  ) {
    response.writeHead(200, { "content-type": "text/plain; charset=UTF-8" }).end("Ok.\n");
    return;
  }
  const user = userOf(passwords, request);
  const sent = await bodyOf(request);
  const form = await formOf(request, sent);
  const given = form?.get("query") ?? url.searchParams.get("query");
  const written = given ?? Buffer.concat(sent).toString("utf8");
  const parameters = new Map<string, string>();
  const settings = new Map<string, string>();
  for (const [name, value] of [...url.searchParams, ...(form ?? [])]) {
    if (name.startsWith("param_")) parameters.set(name.slice(6), value);
    else if (!NOT_SETTINGS.has(name)) settings.set(name, value);
  }
  const database = url.searchParams.get("database") ?? header(request, "x-clickhouse-database") ?? "default";
  const format = url.searchParams.get("default_format") ?? header(request, "x-clickhouse-format") ?? "TabSeparated";
  if (namesFile(written, parameters))
    throw new Error(
      "Code: 497. DB::Exception: a statement names no file: insert rows with the statement, and read them from its " +
        "answer. (ACCESS_DENIED)",
    );
  if (isMany(written))
    throw new Error("Code: 62. DB::Exception: Syntax error: Multi-statements are not allowed. (SYNTAX_ERROR)");
  const sql = withParameters(written, parameters);
  allow(kindOf(sql), user, request.method);
  const rows = given === null || form !== undefined || sent.length === 0 ? undefined : sent;
  send(
    response,
    url.searchParams.get("query_id"),
    format,
    await run(engine, { sql, rows, database, format, settings }),
  );
}

/** @throws Error like a server: GET changes nothing, and an app changes no table. */
function allow(kind: StatementKind, user: string, method: string | undefined): void {
  if (method !== "POST" && kind !== "read" && kind !== "session")
    throw new Error("Code: 164. DB::Exception: Cannot execute query in readonly mode: send it with POST. (READONLY)");
  if (kind === "change" && user !== CLICKHOUSE_OWNER)
    throw new Error(
      `Code: 497. DB::Exception: ${user}: Not enough privileges: it reads and inserts; ${CLICKHOUSE_OWNER} changes ` +
        "tables. (ACCESS_DENIED)",
    );
}

interface Statement {
  readonly sql: string;
  readonly rows: readonly Buffer[] | undefined;
  readonly database: string;
  readonly format: string;
  readonly settings: ReadonlyMap<string, string>;
}

function run(engine: Engine, { sql, rows, database, format, settings }: Statement): Promise<Answer> {
  const kind = kindOf(sql);
  // Without a session these have no effect on a server either, and here they would change the lane
  // for everyone.
  if (kind === "session")
    return Promise.resolve({ bytes: new Uint8Array(0), rowsRead: 0, bytesRead: 0, rowsWritten: 0, seconds: 0 });
  if (rows === undefined)
    return engine.query(kind === "insert" ? "copy" : kind, database, withSettings(sql, settings), format);
  const target = kind === "insert" ? insertTarget(sql) : undefined;
  if (target !== undefined) return engine.insert(database, { ...target, rows, settings });
  return engine.query(
    "insert",
    database,
    `${withSettings(sql, settings)}\n${Buffer.concat(rows).toString("utf8")}`,
    format,
  );
}

function send(response: ServerResponse, queryId: string | null, format: string, done: Answer): void {
  const summary = {
    read_rows: String(done.rowsRead),
    read_bytes: String(done.bytesRead),
    written_rows: String(done.rowsWritten),
    result_rows: "0",
    elapsed_ns: String(Math.round(done.seconds * 1e9)),
  };
  response.writeHead(200, {
    "content-type": format.startsWith("JSON")
      ? "application/json; charset=UTF-8"
      : "text/tab-separated-values; charset=UTF-8",
    "x-clickhouse-format": format,
    "x-clickhouse-summary": JSON.stringify(summary),
    ...(queryId !== null && { "x-clickhouse-query-id": queryId }),
  });
  response.end(done.bytes);
}

/**
 * Answers an error in the words of the engine, with the status and header from which clients read
 * its code.
 */
function refuse(response: ServerResponse, error: unknown): void {
  const message = error instanceof Error ? error.message : String(error);
  const code = Number(/Code: (\d+)\./.exec(message)?.[1] ?? 1002);
  const text = code === 1002 ? `Code: 1002. DB::Exception: ${message}. (UNKNOWN_EXCEPTION)` : message;
  if (response.headersSent) {
    response.destroy();
    return;
  }
  response.writeHead(NOT_FOUND.has(code) ? 404 : BAD_REQUEST.has(code) ? 400 : FORBIDDEN.has(code) ? 403 : 500, {
    "content-type": "text/plain; charset=UTF-8",
    "x-clickhouse-exception-code": String(code),
  });
  response.end(`${text}\n`);
}

/** Returns the parts as they came: joining them would write every inserted row once more. */
async function bodyOf(request: IncomingMessage): Promise<readonly Buffer[]> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    length += part.length;
    if (length > BODY_LIMIT_BYTES)
      throw new Error(`Code: 307. DB::Exception: The body is larger than ${BODY_LIMIT_BYTES} bytes. (TOO_MANY_BYTES)`);
    parts.push(part);
  }
  if (header(request, "content-encoding") !== "gzip") return parts;
  return [gunzipSync(Buffer.concat(parts, length), { maxOutputLength: BODY_LIMIT_BYTES })];
}

/**
 * Parameters that are too long for an address come as the fields of a form, together with the
 * statement.
 */
async function formOf(
  request: IncomingMessage,
  body: readonly Buffer[],
): Promise<ReadonlyMap<string, string> | undefined> {
  const type = header(request, "content-type");
  if (type?.startsWith("multipart/form-data") !== true) return undefined;
  const fields = await new Response(new Uint8Array(Buffer.concat(body)), {
    headers: { "content-type": type },
  }).formData();
  return new Map([...fields].filter((field): field is [string, string] => typeof field[1] === "string"));
}

const header = (request: IncomingMessage, name: string): string | undefined => {
  const value = request.headers[name];
  return Array.isArray(value) ? value[0] : value;
};
