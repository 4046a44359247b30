// An external source on loopback that answers by a script: first the given troubles, then pages of
// rows. It uses real HTTP, so that it behaves like a source.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** A faulty answer that replaces one page. */
export type Trouble =
  | { readonly status: number; readonly headers?: Readonly<Record<string, string>>; readonly body?: string }
  | { readonly slowMs: number }
  | "hangs up";
export interface SourceRow {
  /** RFC 3339. It decides which window the row belongs to. */
  readonly event_time: string;
  readonly [name: string]: unknown;
}
export interface AskedPage {
  readonly from: string;
  readonly to: string;
  readonly cursor: string | null;
  readonly authorization: string | undefined;
}
export interface SourceServer {
  readonly url: string;
  /** Each request so far. */
  readonly asked: readonly AskedPage[];
  readonly has: (...rows: readonly SourceRow[]) => void;
  /** Replaces the next answers by these troubles, one after the other. */
  readonly troubles: (...next: readonly Trouble[]) => void;
  readonly close: () => Promise<void>;
}

/** The rows of a window come `pageSize` at a time, in the order of `rows`. */
export const startSource = async (pageSize = 2): Promise<SourceServer> => {
  const rows: SourceRow[] = [];
  const asked: AskedPage[] = [];
  const waiting: Trouble[] = [];
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const query = new URL(request.url ?? "/", "http://source.invalid").searchParams;
    const [from, to, cursor] = [query.get("from") ?? "", query.get("to") ?? "", query.get("cursor")];
    asked.push({ from, to, cursor, authorization: request.headers.authorization });
    const trouble = waiting.shift();
    if (trouble === "hangs up") return void request.socket.destroy();
    if (trouble !== undefined && "status" in trouble)
      return void response.writeHead(trouble.status, trouble.headers).end(trouble.body);
    if (trouble !== undefined) await sleep(trouble.slowMs);
    const found = rows.filter(({ event_time: at }) => at >= from && at < to);
    const start = Number(cursor ?? 0);
    const next = start + pageSize < found.length ? String(start + pageSize) : null;
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ rows: found.slice(start, start + pageSize), next_cursor: next }));
  };
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/events?app=mine`,
    asked,
    has: (...more) => void rows.push(...more),
    troubles: (...next) => void waiting.push(...next),
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
};
