// The row of an event that is explained and compared with a recomputation: the row that readers of
// the tables see, whether parts are merged or not.
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Clickhouse, openClickhouse } from "../../infra/clickhouse/client.ts";
import { migrate } from "../../infra/clickhouse/migrate.ts";
import { scopeOf } from "../../infra/clickhouse/query.ts";
import { latestRows } from "../../sinks/analytics/latest-rows.ts";
import { eventVersions } from "../../sinks/analytics/reads.ts";
import { eventRows } from "../../sinks/analytics/rows.ts";
import { events } from "../../sinks/analytics/table.ts";
import { clickhouseStore } from "../../sinks/stores/clickhouse.ts";
import { topics } from "../../topics.ts";
import { attributed, recorded } from "../support/builders.ts";
import { sharedStack } from "../support/shared-stack.ts";

const url = new URL(sharedStack().env.CLICKHOUSE_URL!);
const database = `versions_${process.pid}_${Date.now()}`;
let root: Clickhouse;
let clickhouse: Clickhouse;
beforeAll(async () => {
  root = openClickhouse(url.href);
  await root.command({ query: `create database ${database}` });
  clickhouse = openClickhouse(Object.assign(new URL(url), { pathname: `/${database}` }).href);
  await migrate(clickhouse);
  await clickhouse.command({ query: "system stop merges events" });
});
afterAll(async () => {
  await root.command({ query: `drop database ${database}` });
  await Promise.all([root.close(), clickhouse.close()]);
});

const client_id = 9;
const scope = scopeOf(client_id);
const idOf = (n: number) => `00000000-0000-8000-8000-${String(n).padStart(12, "0")}`;
interface Written {
  readonly n: number;
  readonly offset: number;
  readonly country: string;
  readonly version?: number;
}
/** Each insert makes a part of its own. */
const write = async ({ n, offset, country, version = 1 }: Written): Promise<void> => {
  const data = attributed({ client_id, event_id: idOf(n) }, { enrichment: { country }, version });
  const rows = eventRows(
    recorded(topics.eventsAttributed, data, { position: { topic: "events.raw", partition: 0, offset } }),
  );
  await clickhouseStore(clickhouse).insert(events, rows, `${n}-${offset}-${version}`);
};

test(
  "of two copies of one version the later one in the log is explained and compared with, also when " +
    "it was written first",
  async () => {
    await write({ n: 1, offset: 9, country: "MX" });
    await write({ n: 1, offset: 5, country: "US" });
    const versions = await eventVersions(clickhouse, scope, idOf(1));
    expect(versions.map(({ country }) => country)).toEqual(["MX", "US"]);
    const standing = await latestRows(clickhouse, scope, [{ event_id: idOf(1), ts: versions[0]!.ts }]);
    expect(standing.get(idOf(1))).toMatchObject({ version: 1, enrichment: { country: "MX" } });
  },
);

test("a higher version stands wherever it lies in the log, and whenever it was written", async () => {
  await write({ n: 2, offset: 1, country: "MX", version: 2 });
  await write({ n: 2, offset: 900, country: "US" });
  const versions = await eventVersions(clickhouse, scope, idOf(2));
  expect(versions.map(({ version, country }) => [version, country])).toEqual([
    [2, "MX"],
    [1, "US"],
  ]);
  const standing = await latestRows(clickhouse, scope, [{ event_id: idOf(2), ts: versions[0]!.ts }]);
  expect(standing.get(idOf(2))).toMatchObject({ version: 2, enrichment: { country: "MX" } });
});
