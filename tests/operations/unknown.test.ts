// Unknown is not zero: each figure with its source unreadable is absent, and said to be unknown.
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { figures } from "../../apps/keeper/figures.ts";
import { waiting } from "../../apps/keeper/schedules/waiting-sales.ts";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { folderOf, watchDisks } from "../../infra/runtime/metrics/disk-room.ts";
import { openMetrics } from "../../infra/runtime/metrics.ts";
import { pipeline } from "../../topology.ts";

const folder = mkdtempSync(join(tmpdir(), "tributary-unknown-"));
/** A port on which nothing listens. */
let port = 0;
beforeAll(async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  port = (server.address() as { port: number }).port;
  await new Promise((resolve) => server.close(resolve));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const metricsOf = () => {
  const metrics = openMetrics({ app: "keeper", version: "0", commit: "0" });
  const series = async (name: string): Promise<readonly string[]> =>
    (await metrics.text()).split("\n").filter((line) => line.startsWith(name) && !line.startsWith("#"));
  return { metrics, series };
};

test("no gauge of ours is there before it was measured", async () => {
  const { metrics, series } = metricsOf();
  for (const { name, type } of metrics.list())
    if (/^(tributary|kafka)_/.test(name) && type === "gauge" && name !== "tributary_build_info")
      expect(await series(name), name).toEqual([]);
});

/** Every figure, the metrics that show it, and values of before its source went away. */
const shownBy: Readonly<Record<string, readonly string[]>> = {
  "read-again": ["tributary_read_again"],
  "open-letters": ["tributary_dead_letters", "tributary_dead_letters_oldest_seconds"],
  "ledger-balance": ["tributary_ledger_balance"],
  "ledger-sums": ["tributary_ledger_unbalanced"],
  "silent-clients": ["tributary_silent_clients"],
  "pull-age": ["tributary_pull_age_seconds"],
  "mails-waiting": ["tributary_mails_waiting", "tributary_mails_waiting_oldest_seconds"],
  waiting: ["tributary_waiting", "tributary_waiting_oldest_seconds"],
};

test("each figure of the keeper goes when its store is away, and is said to be unknown", async () => {
  const { metrics, series } = metricsOf();
  metrics.setReadAgain(new Map([["analytics", false]]));
  metrics.setOpenLetters([{ kind: "s2s", state: "waiting", count: 3, seconds: 9 }]);
  metrics.setLedgerBalances([{ account: "held", currency: "MXN", amount: 1 }]);
  metrics.setUnbalanced([{ currency: "MXN", amount: 0 }]);
  metrics.setSilentClients(0);
  metrics.setPullAge(60);
  metrics.setMails([{ kind: "mail", count: 0, seconds: 0 }]);
  metrics.setWaitingMoney([{ kind: "refund", count: 1, seconds: 9 }]);
  for (const name of Object.values(shownBy).flat()) expect(await series(name), name).not.toEqual([]);

  const pool = openPool(`postgres://ada@127.0.0.1:${port}/away`, { timeoutMs: 500 });
  const clickhouse = openClickhouse(`http://ada@127.0.0.1:${port}/away`, { timeoutMs: 500 });
  const all = [
    ...figures({ pool, clickhouse, topology: pipeline, hasMailServer: true, metrics }),
    waiting(pool, metrics, Date.now),
  ];
  expect(all.map(({ name }) => name).toSorted()).toEqual(Object.keys(shownBy).toSorted());
  for (const { work } of all) await expect(work(() => false)).rejects.toThrow();
  for (const [figure, names] of Object.entries(shownBy)) {
    for (const name of names) expect(await series(name), name).toEqual([]);
    expect(await series("tributary_figure_known")).toContain(
      `tributary_figure_known{figure="${figure}",app="keeper"} 0`,
    );
  }
  await Promise.all([pool.end(), clickhouse.close()]);
});

test("the room of a folder is known before the folder is made, and that of a bucket is not asked for", async () => {
  const { metrics, series } = metricsOf();
  const places = { home: join(folder, "not", "made"), objects: folderOf("s3://bucket/path") };
  (await watchDisks(places, metrics)).stop();
  const [free] = await series("tributary_disk_free_bytes");
  expect(Number(free!.split(" ")[1])).toBeGreaterThan(0);
  expect(await series("tributary_disk_size_bytes")).toHaveLength(1);
  expect(await series("tributary_figure_known")).toEqual(['tributary_figure_known{figure="disk",app="keeper"} 1']);
  expect(folderOf(`file://${folder}`)).toBe(folder);
});

test("a folder that cannot be asked has no room that is known", async () => {
  const { metrics, series } = metricsOf();
  metrics.setDisk("home", { free: 1, size: 2 });
  (await watchDisks({ home: `${folder}\0` }, metrics)).stop();
  expect(await series("tributary_disk_free_bytes")).toEqual([]);
  expect(await series("tributary_figure_known")).toEqual(['tributary_figure_known{figure="disk",app="keeper"} 0']);
});
