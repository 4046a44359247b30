// A process that posts bodies at the requested rate, and reports answers and costs at the end. Its
// order is JSON on stdin, because thousands of tokens are too long for an argument.
import { json } from "node:stream/consumers";
import { Pool } from "undici";
import { quantile } from "../figures.ts";
import { bodyOf, MANY_DEVICES } from "./events.ts";

export interface LoadOrder {
  readonly url: string;
  readonly path: string;
  readonly tokens: readonly string[];
  readonly clientId: number;
  readonly eventsPerBody: number;
  readonly purchases: number;
  /** Many by default. */
  readonly devices?: number;
  readonly seconds: number;
  /** Events a second; 0 sends as fast as answers come. */
  readonly rate: number;
  readonly inFlight: number;
  readonly firstSerial: number;
  readonly seed: number;
}
export interface LoadResult {
  readonly accepted: number;
  readonly refusedBodies: number;
  readonly statuses: Readonly<Record<string, number>>;
  readonly seconds: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly cpuUsPerEvent: number;
  readonly lastSerial: number;
}

const order = (await json(process.stdin)) as LoadOrder;
const pool = new Pool(order.url, { connections: order.inFlight, pipelining: 1 });
const shape = {
  clientId: order.clientId,
  events: order.eventsPerBody,
  purchases: order.purchases,
  devices: order.devices ?? MANY_DEVICES,
  now: Date.now(),
};
const bodies = Array.from({ length: order.inFlight }, (_, n) => bodyOf({ ...shape, seed: order.seed + n }));
const latencies: number[] = [];
const statuses: Record<string, number> = {};
let accepted = 0;
let serial = order.firstSerial;
let sent = 0;

const cpuBefore = process.cpuUsage();
const started = performance.now();
const end = started + order.seconds * 1_000;

/**
 * Waits for the turn of this send; a late generator does not catch up in a burst beyond its lanes.
 */
const turn = async (): Promise<boolean> => {
  const due = order.rate === 0 ? 0 : started + ((sent * order.eventsPerBody) / order.rate) * 1_000;
  sent += 1;
  const wait = due - performance.now();
  if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
  return performance.now() < end;
};
const lane = async (n: number): Promise<void> => {
  const body = bodies[n]!;
  while (await turn()) {
    body.renew(serial, Date.now());
    const token = order.tokens[serial % order.tokens.length]!;
    serial += 1;
    const at = performance.now();
    const response = await pool.request({
      method: "POST",
      path: order.path,
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: body.bytes,
    });
    const answer = (await response.body.json()) as { accepted?: number };
    latencies.push(performance.now() - at);
    statuses[response.statusCode] = (statuses[response.statusCode] ?? 0) + 1;
    accepted += answer.accepted ?? 0;
  }
};
await Promise.all(bodies.map((_, n) => lane(n)));
const seconds = (performance.now() - started) / 1_000;
const { user, system } = process.cpuUsage(cpuBefore);
const result: LoadResult = {
  accepted,
  refusedBodies: Object.entries(statuses).reduce((sum, [status, count]) => sum + (status === "200" ? 0 : count), 0),
  statuses,
  seconds,
  p50Ms: quantile(latencies, 0.5),
  p99Ms: quantile(latencies, 0.99),
  cpuUsPerEvent: (user + system) / Math.max(accepted, 1),
  lastSerial: serial,
};
process.stdout.write(JSON.stringify(result));
await pool.close();
