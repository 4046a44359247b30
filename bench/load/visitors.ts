// Visitors of a tracking link, or of pages with a pixel, as a process of its own: asks over kept
// connections and says how many were answered, and how long they waited.
import { connect } from "node:net";
import { quantile } from "../figures.ts";

/** `rate` 0: as many as are answered. */
export interface VisitOrder {
  readonly port: number;
  readonly path: string;
  /** The client of the event that each visitor posts; null: it follows a link. */
  readonly eventsOf: number | null;
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
}

const BROWSER = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/142.0.0.0 Safari/537.36";
const { port, path, eventsOf, connections, rate, seconds } = JSON.parse(process.argv[2]!) as VisitOrder;
const waits: number[] = [];
let answered = 0;
let others = 0;
let visitors = 0;

/** Each from an address of its own: one address alone may ask 600 times a second. */
const request = (): string => {
  visitors += 1;
  const address = `10.${(visitors >> 16) & 255}.${(visitors >> 8) & 255}.${visitors & 255}`;
  const headers = [`Host: go.shop.example`, `User-Agent: ${BROWSER}`, `X-Forwarded-For: ${address}`];
  if (eventsOf === null)
    return [`GET ${path}?n=${visitors} HTTP/1.1`, ...headers, "Accept: text/html,*/*;q=0.8", "", ""].join("\r\n");
  const id = `${process.pid}-${visitors}`;
  const event = { t: "page_view", ts: Date.now(), event_id: id, url: `https://shop.example/product/${visitors}` };
  const body = JSON.stringify({ cid: eventsOf, did: `device-${id}`, sid: `session-${id}`, events: [event] });
  const sent = [`Content-Type: text/plain;charset=UTF-8`, `Content-Length: ${body.length}`];
  return [`POST ${path} HTTP/1.1`, ...headers, "Origin: https://shop.example", ...sent, "", body].join("\r\n");
};

const began = performance.now();
const end = began + seconds * 1_000;
const visit = (): Promise<void> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.setNoDelay(true);
    let answer = "";
    let asked = 0;
    let due = performance.now() + (rate === 0 ? 0 : (Math.random() * connections * 1_000) / rate);
    const next = (): void => {
      const now = performance.now();
      if (now >= end) return void socket.end();
      if (rate > 0 && now < due) return void setTimeout(next, due - now);
      // The wait counts from when it should have been asked: a slow host cannot slow its visitors.
      asked = rate > 0 ? due : now;
      due += rate > 0 ? (connections * 1_000) / rate : 0;
      socket.write(request());
    };
    socket.on("connect", next);
    socket.on("data", (piece) => {
      answer += piece.toString("latin1");
      if (!answer.endsWith("\r\n\r\n")) return;
      if (answer.startsWith(eventsOf === null ? "HTTP/1.1 302 " : "HTTP/1.1 204 ")) answered += 1;
      else others += 1;
      answer = "";
      waits.push(performance.now() - asked);
      next();
    });
    socket.on("error", () => undefined);
    socket.on("close", () => resolve());
  });

await Promise.all(Array.from({ length: connections }, visit));
const result: VisitResult = {
  answered,
  others,
  seconds: (performance.now() - began) / 1_000,
  p50Ms: quantile(waits, 0.5),
  p99Ms: quantile(waits, 0.99),
};
process.stdout.write(JSON.stringify(result));
