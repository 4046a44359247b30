// A separate process that plays visitors of a tracking link or of pages with a pixel, a network
// with its postbacks, or senders of single events. It uses kept connections and reports answers and
// waiting times. Its order is JSON on stdin.
import { connect } from "node:net";
import { json } from "node:stream/consumers";
import { quantile } from "../figures.ts";
import { bodyOf, MANY_DEVICES } from "./events.ts";

/** A `rate` of 0 sends as fast as answers come. */
export interface VisitOrder {
  readonly port: number;
  readonly path: string;
  /** The client of the event that each visitor posts; null for visitors of a link. */
  readonly eventsOf: number | null;
  /** Each posts a sale in the form of a source instead. */
  readonly isPostback?: boolean;
  /** Each posts a batch of one event with one of these tokens instead. */
  readonly tokens?: readonly string[];
  readonly connections: number;
  readonly rate: number;
  readonly seconds: number;
}
export interface VisitResult {
  readonly answered: number;
  readonly others: number;
  readonly seconds: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** CPU of all these visitors together. */
  readonly cpuUs: number;
}

const BROWSER = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/142.0.0.0 Safari/537.36";
const {
  port,
  path,
  eventsOf,
  isPostback = false,
  tokens,
  connections,
  rate,
  seconds,
} = (await json(process.stdin)) as VisitOrder;
const waits: number[] = [];
let answered = 0;
let others = 0;
let visitors = 0;

const HEAD = ` HTTP/1.1\r\nHost: go.shop.example\r\nUser-Agent: ${BROWSER}\r\nX-Forwarded-For: 10.`;
const LINK_TAIL = "\r\nAccept: text/html,*/*;q=0.8\r\n\r\n";
const POST_TAIL = "\r\nOrigin: https://shop.example\r\nContent-Type: text/plain;charset=UTF-8\r\nContent-Length: ";
const JSON_TAIL = "\r\nContent-Type: application/json\r\nContent-Length: ";

/** Each request comes from another address, because one address may only send 600 a second. */
const request = (): string => {
  visitors += 1;
  const head = `${HEAD}${(visitors >> 16) & 255}.${(visitors >> 8) & 255}.${visitors & 255}`;
  if (isPostback) return postback(head);
  if (tokens !== undefined) return batch(head, tokens[visitors % tokens.length]!);
  if (eventsOf === null) return `GET ${path}?n=${visitors}${head}${LINK_TAIL}`;
  const id = `${process.pid}-${visitors}`;
  const event =
    `{"t":"page_view","ts":${Date.now()},"event_id":"${id}",` + `"url":"https://shop.example/product/${visitors}"}`;
  const body = `{"cid":${eventsOf},"did":"device-${id}","sid":"session-${id}","events":[${event}]}`;
  return `POST ${path}${head}${POST_TAIL}${body.length}\r\n\r\n${body}`;
};

const postback = (head: string): string => {
  const id = `${process.pid}-${visitors}`;
  const body = `{"event":"sale","id":"${id}","sale":{"amount":"499.00","currency":"MXN","order":"${id}"},"sub":"r"}`;
  return `POST ${path}${head}${JSON_TAIL}${body.length}\r\n\r\n${body}`;
};

/** Batches are built once; each send writes another serial into the ids of event and order. */
const BATCHES = 1_000;
const batches = Array.from({ length: tokens === undefined ? 0 : BATCHES }, (_, n) => {
  const shape = { clientId: eventsOf ?? 0, events: 1, purchases: 0.02, devices: MANY_DEVICES, now: Date.now() };
  return bodyOf({ ...shape, seed: n })
    .bytes.toString()
    .split("-0000000000-");
});
const batch = (head: string, token: string): string => {
  const body = batches[visitors % BATCHES]!.join(`-${process.pid}-${visitors}-`);
  return `POST ${path}${head}\r\nAuthorization: Bearer ${token}${JSON_TAIL}${body.length}\r\n\r\n${body}`;
};

const isAnsweredInJson = isPostback || tokens !== undefined;
const WANTED = isAnsweredInJson ? "200" : eventsOf === null ? "302" : "204";
const STATUS_AT = "HTTP/1.1 ".length;
const BLANK_LINE = 0x0d0a0d0a;
const CLOSING_BRACE = 0x7d;
/** All connections read into one buffer, one after the other, and answers are parsed in place. */
const room = Buffer.allocUnsafe(64 * 1024);

const began = performance.now();
const end = began + seconds * 1_000;
const visit = (): Promise<void> =>
  new Promise((resolve) => {
    let status = "";
    let asked = 0;
    let due = performance.now() + (rate === 0 ? 0 : (Math.random() * connections * 1_000) / rate);
    const next = (): void => {
      const now = performance.now();
      if (now >= end) return void socket.end();
      if (rate > 0 && now < due) return void setTimeout(next, due - now);
      // The wait counts from the moment at which the request was due, so that a slow host cannot
      // slow its visitors.
      asked = rate > 0 ? due : now;
      due += rate > 0 ? (connections * 1_000) / rate : 0;
      socket.write(request(), "latin1");
    };
    // A postback, a batch and a problem are answered in JSON; the other answers have no body. A
    // connection has one request under way.
    const onRead = (length: number): boolean => {
      if (status === "") status = room.toString("latin1", STATUS_AT, STATUS_AT + 3);
      const isWhole = length >= 4 && room.readUInt32BE(length - 4) === BLANK_LINE;
      if (!isWhole && ((status === WANTED && !isAnsweredInJson) || room[length - 1] !== CLOSING_BRACE)) return true;
      if (status === WANTED) answered += 1;
      else others += 1;
      status = "";
      waits.push(performance.now() - asked);
      next();
      return true;
    };
    const socket = connect({ port, host: "127.0.0.1", noDelay: true, onread: { buffer: room, callback: onRead } });
    socket.on("connect", next);
    socket.on("error", () => undefined);
    socket.on("close", () => resolve());
  });

await Promise.all(Array.from({ length: connections }, visit));
const { user, system } = process.cpuUsage();
const result: VisitResult = {
  answered,
  others,
  seconds: (performance.now() - began) / 1_000,
  p50Ms: quantile(waits, 0.5),
  p99Ms: quantile(waits, 0.99),
  cpuUs: user + system,
};
process.stdout.write(JSON.stringify(result));
