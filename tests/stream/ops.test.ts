// The side port and the metrics, as a probe, a scraper and a reader of logs see them.
import { afterEach, expect, test } from "vitest";
import { type Ops, openOps } from "../../infra/http/app/side-port.ts";
import { openLog } from "../../infra/runtime/log.ts";
import { openMetrics } from "../../infra/runtime/metrics.ts";

const metricsOf = () => openMetrics({ app: "worker", version: "1.2.3", commit: "abc" });
let ops: Ops | undefined;
afterEach(() => ops?.close());
const opened = async (checks: Record<string, () => Promise<void> | void>, metrics = metricsOf()) => {
  ops = await openOps({ port: 0, checks, metrics });
  const { port } = ops;
  return async (path: string, init?: RequestInit) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, init);
    return { status: response.status, text: await response.text() };
  };
};

test("readiness names each check and is red when one of them throws", async () => {
  const get = await opened({
    kafka: () => {},
    postgres: () => Promise.reject(new Error("connection refused")),
  });
  expect(await get("/readyz")).toEqual({ status: 503, text: "kafka: ok\npostgres: connection refused\n" });
});

test("readiness is asked once however many probes come together", async () => {
  let asked = 0;
  const get = await opened({ store: () => void asked++ });
  const answers = await Promise.all(Array.from({ length: 10 }, () => get("/readyz")));
  expect(answers.every(({ status }) => status === 200)).toBe(true);
  expect(asked).toBe(1);
});

test("while draining the app is alive and not ready", async () => {
  const get = await opened({});
  expect(await get("/readyz")).toEqual({ status: 200, text: "ok\n" });
  ops!.drain();
  expect((await get("/readyz")).status).toBe(503);
  expect((await get("/livez")).status).toBe(200);
});

test("a dead store does not make the process look dead", async () => {
  const get = await opened({ store: () => Promise.reject(new Error("down")) });
  expect((await get("/livez")).status).toBe(200);
});

test("nothing else is served", async () => {
  const get = await opened({});
  expect((await get("/")).status).toBe(404);
  expect((await get("/metrics", { method: "POST" })).status).toBe(405);
});

test("events in = emitted + recalled + dropped + rejected can be read off", async () => {
  const metrics = metricsOf();
  const get = await opened({}, metrics);
  metrics.countBatch({
    chain: "enrich",
    topic: "events.raw",
    partition: 0,
    messages: 11,
    unreadable: new Map([["not_framed", 1]]),
    seconds: 0.2,
    stages: [
      {
        stage: "enrich",
        events: 10,
        emitting: 6,
        outputs: 7,
        recalled: 1,
        truncated: 0,
        dropped: new Map([["suppressed", 2]]),
        rejected: new Map([["bad_ip", 1]]),
      },
    ],
  });
  const { text } = await get("/metrics");
  expect(text).toContain('tributary_events_in_total{stage="enrich",app="worker"} 10');
  expect(text).toContain('tributary_events_emitted_total{stage="enrich",app="worker"} 6');
  expect(text).toContain('tributary_events_recalled_total{stage="enrich",app="worker"} 1');
  expect(text).toContain('tributary_events_dropped_total{stage="enrich",reason="suppressed",app="worker"} 2');
  expect(text).toContain('tributary_events_rejected_total{stage="enrich",reason="bad_ip",app="worker"} 1');
  expect(text).toContain('tributary_events_rejected_total{stage="enrich",reason="not_framed",app="worker"} 1');
  expect(text).toContain(`tributary_build_info{version="1.2.3",commit="abc",node="${process.version}",app="worker"} 1`);
});

test("the age of a large write is taken from a sample of it", async () => {
  const metrics = metricsOf();
  const receivedAt = Array.from({ length: 10_000 }, (_, n) => 100_000 - (n < 9_000 ? 1_100 : 8_000));
  metrics.countWrite(
    { sink: "analytics", table: "events", rows: 10_000, rejected: new Map(), seconds: 0.1, receivedAt },
    100_000,
  );
  const text = await metrics.text();
  expect(text).toContain('tributary_rows_written_total{sink="analytics",table="events",app="worker"} 10000');
  const [, upToTwo] = /event_age_seconds_bucket\{le="2",app="worker",sink="analytics"\} (\d+)/.exec(text)!;
  const [, all] = /event_age_seconds_count\{.*\} (\d+)/.exec(text)!;
  expect(Number(upToTwo) / Number(all)).toBeCloseTo(0.9, 1);
});

test("a partition that moved away leaves no lag behind", async () => {
  const metrics = metricsOf();
  metrics.setLag(
    "tributary.enrich",
    [0, 1].map((partition) => ({ topic: "events.raw", partition, lag: 5, seconds: 1 })),
  );
  metrics.setLag("tributary.enrich", [{ topic: "events.raw", partition: 1, lag: 7, seconds: 2 }]);
  const text = await metrics.text();
  expect(text).toContain(
    'kafka_consumergroup_group_lag{group="tributary.enrich",topic="events.raw",partition="1",app="worker"} 7',
  );
  expect(text).not.toContain('partition="0"');
});

test("two apps in one process keep their metrics apart", () => {
  expect(() => [metricsOf(), metricsOf()]).not.toThrow();
});

test("a log line has one name, its fields, and neither secrets nor personal data", () => {
  const lines: string[] = [];
  const log = openLog({ app: "worker", to: { write: (line) => lines.push(line) } }).with({ stage: "enrich" });
  const error = new Error("boom", { cause: new Error("inner") });
  log.error("stage.stopped", {
    error,
    partition: 3,
    email: "a@b.mx",
    headers: { authorization: "Bearer x", "x-svc-signature": "ab" },
  });
  log.warn("asked", { url: "/postback/external/src_1?a=1&key=aB3-_x%2D9&id=7", from: "https://x.example/?key=zZ9" });
  expect(JSON.parse(lines[1]!)).toMatchObject({
    url: "/postback/external/src_1?a=1&key=[redacted]&id=7",
    from: "https://x.example/?key=[redacted]",
  });
  const line = JSON.parse(lines[0]!);
  expect(line).toMatchObject({ level: "error", event: "stage.stopped", app: "worker", stage: "enrich", partition: 3 });
  expect(line.error.message).toContain("boom");
  expect(line.email).toBe("[redacted]");
  expect(line.headers).toEqual({ authorization: "[redacted]", "x-svc-signature": "[redacted]" });
});
