// The live screen of `npm start`: what comes in, what is stored, how far each stage is behind, and
// what it is worth.

import { setTimeout as pause } from "node:timers/promises";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { scopeOf } from "../../infra/clickhouse/query.ts";
import type { Run } from "../../infra/embedded/supervisor.ts";
import { openKafka } from "../../infra/kafka/kafka.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { table } from "../../infra/runtime/output.ts";
import { hostings } from "../../modules/groups/group-holds.ts";
import { hostsNow } from "../../modules/groups/hosts.ts";
import type { Demo } from "../../modules/installation/seed.ts";
import { snippetOf } from "../../modules/pixel/snippet.ts";
import { summary } from "../../modules/reports/report.ts";
import { eventCounts, freshness } from "../../sinks/analytics/reads.ts";
import { readersOf } from "../../stream/topology.ts";
import { pipeline } from "../../topology.ts";

export interface ScreenOptions {
  readonly run: () => Run;
  readonly env: Readonly<Record<string, string>>;
  readonly demo: Demo;
  readonly shopUrl: string;
  /** Accepted by the edge for the demo so far; undefined without demo traffic. */
  readonly sent: () => { readonly accepted: number; readonly problem: string | undefined } | undefined;
  /** The last lines of what the supervisor said. */
  readonly notes: () => readonly string[];
}
interface Reading {
  readonly at: number;
  readonly high: number;
  readonly stored: number;
  readonly text: string;
}
const REFRESH_MS = 1_000;
const FRESHNESS_WINDOW_MS = 60_000;
const seconds = (ms: number | null): string => (ms === null ? "-" : `${(ms / 1_000).toFixed(1)} s`);

/** Draws until `leaving` is aborted: over itself on a terminal, else one line every 10 s. */
export const showScreen = async (options: ScreenOptions, leaving: AbortSignal): Promise<void> => {
  const { env, demo } = options;
  const clickhouse = openClickhouse(env.CLICKHOUSE_URL!);
  const pool = openPool(env.POSTGRES_URL!, { name: "tributary-screen", max: 2 });
  const admin = await openKafka({
    brokers: env.KAFKA_BROKERS!,
    clientId: "tributary-screen",
    topicPrefix: env.KAFKA_TOPIC_PREFIX ?? "",
  }).admin();
  const clientIds = demo.clients.map(({ id }) => id);
  const slugOf = new Map(demo.clients.map(({ id, slug }) => [id, slug]));
  const isTerminal = process.stdout.isTTY === true;

  const read = async (before: Reading | undefined): Promise<Reading> => {
    const at = performance.now();
    const [counts, fresh, money, ends] = await Promise.all([
      eventCounts(clickhouse, scopeOf(...clientIds)),
      freshness(clickhouse, scopeOf(...clientIds), Date.now() - FRESHNESS_WINDOW_MS),
      summary(pool, clientIds),
      admin.watermarks("events.raw"),
    ]);
    const { describeGroups } = admin;
    const hosts = await hostsNow({ topology: pipeline, recorded: () => hostings(pool), describeGroups });
    const hosted = readersOf(pipeline)
      .map(hosts)
      .filter(({ group, isRecorded }, n, all) => isRecorded && n === all.findIndex((one) => one.group === group));
    const lags = await Promise.all(
      hosted.map(async ({ nodes, group, topic }) => ({
        name: nodes.join(","),
        lag: (await admin.lag(group, [topic])).reduce((sum, one) => sum + one.lag, 0),
      })),
    );
    const high = ends.reduce((sum, end) => sum + end.high, 0);
    const stored = counts.reduce((sum, one) => sum + one.events, 0);
    const perSecond = (now: number, then: number | undefined) =>
      before === undefined ? "-" : String(Math.max(0, Math.round(((now - (then ?? now)) * 1_000) / (at - before.at))));
    const demoNow = options.sent();
    const lines = [
      `events in ${perSecond(high, before?.high)}/s, stored ${perSecond(stored, before?.stored)}/s, ` +
        `${stored} counted in all${demoNow?.problem ? `; demo traffic: ${demoNow.problem}` : ""}`,
      `freshness (received to stored, last minute): p50 ${seconds(fresh.p50_ms)}, p99 ${seconds(fresh.p99_ms)}`,
      `lag: ${lags.map(({ name, lag }) => `${name} ${lag}`).join("  ")}`,
      "",
      table(
        ["client", "events", "conversions", "revenue", "commission"],
        money.clients.map(({ client_id, conversions, revenue, commission }) => [
          slugOf.get(client_id) ?? client_id,
          counts.find((one) => one.client_id === client_id)?.events ?? 0,
          conversions,
          revenue.map(({ amount, currency }) => `${amount} ${currency}`).join(" ") || "-",
          commission.map(({ amount, currency }) => `${amount} ${currency}`).join(" ") || "-",
        ]),
      ),
      `ledger ${money.isBalanced ? "balances" : "DOES NOT BALANCE"}`,
    ];
    return { at, high, stored, text: lines.join("\n") };
  };

  let reading: Reading | undefined;
  let lastLine = Number.NEGATIVE_INFINITY;
  try {
    while (!leaving.aborted) {
      const problem = await read(reading).then(
        (next) => {
          reading = next;
          return undefined;
        },
        (error: Error) => error.message,
      );
      const notes = [...(problem ? [`not readable just now: ${problem}`] : []), ...options.notes()].join("\n");
      if (isTerminal)
        process.stdout.write(
          `\x1b[H\x1b[2J${head(options)}\n\n${reading?.text ?? ""}\n\n${notes}\n\nCtrl-C stops everything.\n`,
        );
      else if (performance.now() - lastLine > 10_000 && reading !== undefined) {
        lastLine = performance.now();
        process.stdout.write(`${problem ?? reading.text.split("\n").slice(0, 3).join("; ")}\n`);
      }
      await pause(REFRESH_MS, undefined, { signal: leaving }).catch(() => undefined);
    }
  } finally {
    await Promise.allSettled([admin.close(), clickhouse.close(), pool.end()]);
  }
};

/** The first link of each partner, by shop: open one in a browser. */
const linksOf = ({ clients, links }: Demo): readonly string[] =>
  clients.map(({ id, slug }) => {
    const own = links.filter((link) => link.client_id === id);
    const firsts = own.filter((link, n) => n === own.findIndex(({ partner_id }) => partner_id === link.partner_id));
    return `links of ${slug}: ${firsts.map(({ url }) => url).join(" ")}`;
  });

/** Addresses, and a request that works as it stands: paste it into another terminal. */
export const head = ({ run, demo, shopUrl }: Pick<ScreenOptions, "run" | "demo" | "shopUrl">): string => {
  const { apps, services } = run();
  const shop = demo.clients[1] ?? demo.clients[0]!;
  const event =
    `{"t":"purchase","ts":'$(date +%s000)',"cid":${shop.id},"did":"my-device",` +
    `"props":{"order_id":"'$RANDOM'","revenue":"499.00","currency":"MXN",` +
    `"product_id":"lamp","quantity":1,"coupon":"VERDE10"}}`;
  const pixel = apps.pixel?.url ?? "-";
  return [
    `Tributary  ingest ${apps.ingest?.url ?? "-"}  pixel ${pixel}  kafka ` +
      `${"brokers" in services.kafka! ? services.kafka.brokers : "-"}  more: npx tributary status`,
    "",
    `curl -s ${apps.ingest?.url}/ingest/batch -H 'Authorization: Bearer ${shop.ingest_token}' -H ` +
      `'Content-Type: application/json' -d '{"events":[${event}]}'`,
    "",
    `demo shop, with what just happened beside it: ${shopUrl}  (its links lead there: those of casa-verde)`,
    ...linksOf(demo),
    `in the head of a page: ${snippetOf(shop.id).replace("{pixel_url}", pixel).replaceAll(/\n\s*/g, " ")}`,
  ].join("\n");
};
