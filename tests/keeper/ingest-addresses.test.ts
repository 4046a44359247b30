// The keeper probes every configured ingest address itself: a dead primary and dead addresses are
// recorded even if no edge is left to report them, and all of them dead is one incident.
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { addressChecks } from "../../apps/keeper/schedules/ingest-addresses.ts";
import type { Alert } from "../../modules/base/alerts/alert.ts";
import type { PathName } from "../../modules/intake/path/path.ts";
import type { IngestPathCheck } from "../../modules/intake/path/path-checks.ts";
import { noon } from "../support/builders.ts";

const open: Server[] = [];
afterEach(() => {
  for (const server of open.splice(0)) server.close();
});

/** An edge whose health report has the present value of `path`. */
const edge = async (path: () => PathName, status = 200) => {
  const server = createServer((_, response) => {
    response.statusCode = status;
    response.end(JSON.stringify({ failover: { path: path(), spooled_events: path() === "standby" ? 7 : 0 } }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  open.push(server);
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const die = async (): Promise<void> => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return { url, die };
};

/** A keeper with a record in memory, which keeps the start of each state as Postgres does. */
const keeping = (addresses: readonly string[]) => {
  const records: IngestPathCheck[] = [];
  const alerts: Alert[] = [];
  const clock = { now: noon };
  const known = async () => {
    const last = records.at(-1);
    if (last === undefined) return undefined;
    const changed = records.findLastIndex(({ state }, n) => state === last.state && records[n - 1]?.state !== state);
    return { ...last, since: records[changed]!.checked_at };
  };
  const schedule = () =>
    addressChecks({
      addresses,
      known,
      record: async (check) => void records.push(check),
      report: async (alert) => alerts.push(alert) > 0,
      now: () => clock.now,
    });
  const round = async (minutes = 1): Promise<void> => {
    clock.now += minutes * 60_000;
    await schedule().work(() => false);
  };
  const mails = () => [
    ...new Set(alerts.map(({ incident_id: id, status, severity }) => `${id} ${status} ${severity}`)),
  ];
  return { records, alerts, mails, round, states: () => records.map(({ state }) => state) };
};

test("addresses that are well are on record hourly, though one answers 503 for a store", async () => {
  const [primary, standby] = [await edge(() => "primary", 503), await edge(() => "primary")];
  const keeper = keeping([primary.url, standby.url]);
  await keeper.round();
  await keeper.round();
  expect(keeper.states()).toEqual(["operational"]);
  await keeper.round(60);
  expect(keeper.states()).toEqual(["operational", "operational"]);
  expect(keeper.alerts).toEqual([]);
});

test("a primary that is dead, or keeps events on its disk, is primary_down with the reason", async () => {
  let path: PathName = "primary";
  const [primary, standby] = [await edge(() => path), await edge(() => "primary")];
  const keeper = keeping([primary.url, standby.url]);
  await keeper.round();
  path = "standby";
  await keeper.round();
  expect(keeper.records.at(-1)).toMatchObject({ state: "primary_down", waiting_events: 7, reason: null });
  path = "primary";
  await keeper.round();
  await primary.die();
  await keeper.round();
  expect(keeper.states()).toEqual(["operational", "primary_down", "operational", "primary_down"]);
  expect(keeper.records.at(-1)!.reason).toContain(`${primary.url} does not answer: `);
  // What waits on the disk of a dead edge is not known.
  expect(keeper.records.at(-1)!.waiting_events).toBe(null);
  expect(keeper.alerts).toEqual([]);
});

test("all dead is both_down and one incident, over keepers that start again, until one is back", async () => {
  const [primary, standby] = [await edge(() => "primary"), await edge(() => "primary")];
  const keeper = keeping([primary.url, standby.url]);
  await keeper.round();
  await Promise.all([primary.die(), standby.die()]);
  for (let n = 0; n < 3; n++) await keeper.round();
  expect(keeper.states()).toEqual(["operational", "both_down"]);
  const incident = `inc_ingest_path_${noon + 2 * 60_000}`;
  expect(keeper.mails()).toEqual([`${incident} down critical`]);
  const { port } = new URL(primary.url);
  const again = createServer((_, response) => response.end('{"failover":{"path":"primary"}}'));
  await new Promise<void>((resolve) => again.listen(Number(port), "127.0.0.1", resolve));
  open.push(again);
  await keeper.round();
  await keeper.round();
  expect(keeper.states()).toEqual(["operational", "both_down", "operational"]);
  expect(keeper.mails()).toEqual([`${incident} down critical`, `${incident} recovered normal`]);
  expect(keeper.alerts.at(-1)).toMatchObject({ service: "ingest", duration: "3 min 0 s" });
});

test("edges that are left with object storage alone are both_down, and what is no edge counts as dead", async () => {
  const alone = await edge(() => "both_down");
  const stranger = createServer((_, response) => response.end("<html>"));
  await new Promise<void>((resolve) => stranger.listen(0, "127.0.0.1", resolve));
  open.push(stranger);
  const keeper = keeping([alone.url, `http://127.0.0.1:${(stranger.address() as AddressInfo).port}`]);
  await keeper.round();
  expect(keeper.states()).toEqual(["both_down"]);
});
