// The live screen of `npm start`: what comes in, what is stored, how far each stage is behind, and
// what it is worth.

import { writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { scopeOf } from "../../infra/clickhouse/query.ts";
import type { Run } from "../../infra/embedded/supervisor.ts";
import { openKafka } from "../../infra/kafka/kafka.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { table } from "../../infra/runtime/output.ts";
import { snippetOf } from "../../modules/catalog/pixel/snippet.ts";
import { type Amount, summary } from "../../modules/figures/reports/report.ts";
import { hostings } from "../../modules/log/groups/group-holds.ts";
import { hostsNow } from "../../modules/log/groups/hosts.ts";
import { examplesOf, printedExamples } from "../../modules/running/installation/examples.ts";
import type { Demo } from "../../modules/running/installation/seed.ts";
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
  /** The folder of the stack; the file of the first event is written into it. */
  readonly home: string;
  /** The last lines of what the supervisor said. */
  readonly notes: () => readonly string[];
}
interface ScreenReading {
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
  const [first] = examplesOf(options.run().apps, options.demo);
  if (first) writeFileSync(join(options.home, "first-event.sh"), `${first.command}\n`, { mode: 0o600 });

  const read = async (before: ScreenReading | undefined): Promise<ScreenReading> => {
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
        name: hostName(nodes),
        lag: (await admin.lag(group, [topic])).reduce((sum, one) => sum + one.lag, 0),
      })),
    );
    const high = ends.reduce((sum, end) => sum + end.high, 0);
    const stored = counts.reduce((sum, one) => sum + one.events, 0);
    const perSecond = (now: number, then: number | undefined) =>
      before === undefined ? "-" : String(Math.max(0, Math.round(((now - (then ?? now)) * 1_000) / (at - before.at))));
    const lines = shownLines({
      rates: { received: perSecond(high, before?.high), stored: perSecond(stored, before?.stored) },
      problem: options.sent()?.problem,
      fresh,
      lags,
      clients: money.clients.map(({ client_id, conversions, revenue, commission }) => ({
        ...{ slug: slugOf.get(client_id) ?? String(client_id), conversions, revenue, commission },
        events: counts.find((one) => one.client_id === client_id)?.events ?? 0,
      })),
      isBalanced: money.isBalanced,
    });
    return { at, high, stored, text: lines.join("\n") };
  };

  let reading: ScreenReading | undefined;
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
      if (isTerminal) {
        const { columns = 80, rows = 24 } = process.stdout;
        const text = `${shortHead(options)}\n\n${reading?.text ?? ""}\n\n${notes}`;
        process.stdout.write(`\x1b[H\x1b[2J${fitted(text, { columns, rows })}\n`);
      } else if (performance.now() - lastLine > 10_000 && reading !== undefined) {
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

interface ScreenView {
  readonly rates: { readonly received: string; readonly stored: string };
  readonly problem: string | undefined;
  readonly fresh: { readonly p50_ms: number | null; readonly p99_ms: number | null };
  readonly lags: readonly { readonly name: string; readonly lag: number }[];
  readonly clients: readonly {
    readonly slug: string;
    readonly events: number;
    readonly conversions: number;
    readonly revenue: readonly Amount[];
    readonly commission: readonly Amount[];
  }[];
  readonly isBalanced: boolean;
}

const NARROWEST = 80;

/** A host by its first node, for a line that has room for some: "analytics and 5 others". */
export const hostName = ([first = "", ...others]: readonly string[]): string =>
  others.length === 0 ? first : `${first} and ${others.length} other${others.length === 1 ? "" : "s"}`;

/** Parts in lines that the narrowest terminal has room for. */
const wrapped = (start: string, parts: readonly string[]): readonly string[] => {
  const lines = [start];
  for (const [n, part] of parts.entries()) {
    const text = n === parts.length - 1 ? part : `${part},`;
    const longer = `${lines.at(-1)} ${text}`;
    if (longer.length < NARROWEST) lines[lines.length - 1] = longer;
    else lines.push(`  ${text}`);
  }
  return lines;
};

/** A row for each currency, so that no amount is cut off: client and counts stand in the first. */
const rowsOf = ({ slug, events, conversions, revenue, commission }: ScreenView["clients"][number]) => {
  const currencies = [...new Set([...revenue, ...commission].map(({ currency }) => currency))];
  const of = (all: readonly Amount[], wanted: string | undefined): string | null => {
    const found = all.find(({ currency }) => currency === wanted);
    return found === undefined ? null : `${found.amount} ${found.currency}`;
  };
  return [currencies[0], ...currencies.slice(1)].map((currency, n) => [
    ...(n === 0 ? [slug, events, conversions] : ["", "", ""]),
    of(revenue, currency),
    of(commission, currency),
  ]);
};

/**
 * What is read of the stores. `received` counts records of the log, each copy of an event too;
 * `events` those that count once, since the beginning.
 */
export const shownLines = ({ rates, problem, fresh, lags, clients, isBalanced }: ScreenView): readonly string[] => {
  const behind = lags.filter(({ lag }) => lag > 0).sort((a, b) => b.lag - a.lag);
  return [
    `received ${rates.received}/s, copies too   stored ${rates.stored}/s`,
    ...(problem === undefined ? [] : [`demo traffic: ${problem}`]),
    `received to stored, last minute: half within ${seconds(fresh.p50_ms)}, 99 % within ${seconds(fresh.p99_ms)}`,
    ...(behind.length === 0
      ? ["nothing waits"]
      : wrapped(
          "records that wait:",
          behind.map(({ name, lag }) => `${name} ${lag}`),
        )),
    "",
    ...table(["client", "events", "conversions", "revenue", "commission"], clients.flatMap(rowsOf)).split("\n"),
    "since the beginning; revenue: all sales; conversions, commission: credited ones",
    `ledger ${isBalanced ? "balances" : "DOES NOT BALANCE"}`,
  ];
};

const LAST_LINE = "Ctrl-C stops everything.";

/** No line is longer than the terminal is wide, and no more lines than it is high. */
export const fitted = (
  text: string,
  { columns, rows }: { readonly columns: number; readonly rows: number },
): string => {
  const lines = text.split("\n").map((line) => (line.length > columns ? `${line.slice(0, columns - 1)}…` : line));
  // The cursor stands in a line of its own.
  return [...lines.slice(0, Math.max(0, rows - 3)), "", LAST_LINE].slice(-(rows - 1)).join("\n");
};

/** What fits above the figures, long addresses each on a line; the request is in the file. */
export const shortHead = ({
  run,
  home,
  demo,
  shopUrl,
}: Pick<ScreenOptions, "run" | "home" | "demo" | "shopUrl">): string =>
  [
    `Tributary   ingest ${run().apps.ingest?.url ?? "-"}   api ${run().apps.api?.url ?? "-"}`,
    `try it: sh ${join(relative(process.cwd(), home), "first-event.sh")}   more: npx tributary examples`,
    `demo shop ${shopUrl}   pixel ${run().apps.pixel?.url ?? "-"}`,
    `a link ${demo.links[0]?.url ?? "-"}`,
  ].join("\n");

/** Addresses, and requests that work as they stand: paste one into another terminal. */
export const head = (options: Pick<ScreenOptions, "run" | "demo" | "shopUrl">): string => {
  const { apps, services } = options.run();
  const shop = options.demo.clients[1] ?? options.demo.clients[0]!;
  const pixel = apps.pixel?.url ?? "-";
  return [
    `Tributary  ingest ${apps.ingest?.url ?? "-"}  pixel ${pixel}  kafka ` +
      `${"brokers" in services.kafka! ? services.kafka.brokers : "-"}  more: npx tributary status`,
    `demo shop, with what just happened beside it: ${options.shopUrl}  (its links lead there: those of casa-verde)`,
    ...linksOf(options.demo),
    `in the head of a page: ${snippetOf(shop.id).replace("{pixel_url}", pixel).replaceAll(/\n\s*/g, " ")}`,
    "every way of sending, also by npx tributary examples:",
    "",
    printedExamples(examplesOf(options.run().apps, options.demo)),
  ].join("\n");
};
