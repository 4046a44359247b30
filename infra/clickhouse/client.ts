// Opens ClickHouse. This is the one module that touches its client, with the settings that every
// statement needs.
import { type ClickHouseClient, createClient } from "@clickhouse/client";

/** The connection as the rest of this folder takes it; the process that opened it closes it. */
export type Clickhouse = ClickHouseClient;

/**
 * A statement ends on the server first, so that the server's error (code 159) arrives before the
 * timeout of the client.
 */
const graceMs = 2_000;

/**
 * Opens a pool whose connections are made when they are needed; the database is the path of the
 * URL. `timeoutMs` bounds each statement: 20 s is a sink's session of 30 s less a heartbeat and a
 * retry. 64-bit integers and decimals arrive as texts, because JSON numbers would round them.
 */
export const openClickhouse = (
  url: string,
  options: { readonly name?: string; readonly timeoutMs?: number; readonly connections?: number } = {},
): Clickhouse => {
  const timeoutMs = options.timeoutMs ?? 20_000;
  return createClient({
    url,
    application: options.name ?? "tributary",
    request_timeout: timeoutMs + graceMs,
    max_open_connections: options.connections ?? 4,
    // On one machine, both cost more CPU than they save.
    compression: { request: false, response: false },
    // A condition of a hundred comparisons binds more values than fit into a URL.
    use_multipart_params_auto: true,
    // A log line of the client would go to stdout, which is for data.
    log: { LoggerClass: Silent },
    clickhouse_settings: {
      // Newer servers switch it on and answer before the rows are written.
      async_insert: 0,
      output_format_json_quote_64bit_integers: 1,
      output_format_json_quote_decimals: 1,
      max_execution_time: timeoutMs / 1_000,
    },
  });
};

/** Drops the client's log: errors are also thrown to the caller, who knows whether they matter. */
class Silent {
  trace(): void {}
  debug(): void {}
  info(): void {}
  warn(): void {}
  error(): void {}
}
