// Erases a person from every store: the list of erased subjects comes first, so that nothing is
// written again, then the rows that are there.
import { setTimeout as sleep } from "node:timers/promises";
import type { Pool } from "pg";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { type Act, writeAudit } from "../../base/audit/audit.ts";
import { markMinutes } from "../../figures/rollups/mark-minutes.ts";
import { knownWithinMs, suppressWithin } from "../suppressions.ts";
import { type DeviceUse, usesOf, withoutClaimed } from "./devices.ts";
import { countEvents, eraseChoices, eraseEvents, findEvents } from "./events.ts";
import { eraseInRedis, findInRedis, type RedisPlace } from "./fast-memory.ts";
import { type Counts, type ErasureReport, placesOf, stays } from "./report.ts";
import type { ErasedSubject } from "./subject.ts";
import { countListRows, countOwnRows, eraseLateEdges, eraseOwnRows, type ListCounts } from "./tables.ts";
import { type ErasureTarget, findTarget, listedOf } from "./target.ts";

export interface ErasurePorts extends RedisPlace {
  /** Its statements may take minutes: some read every sale of the client. */
  readonly pool: Pool;
  readonly clickhouse: Clickhouse;
  /** Waits until every writer knows the list. */
  readonly untilKnown?: () => Promise<unknown>;
}
export interface ErasureRequest {
  readonly clientId: number;
  readonly subject: ErasedSubject;
  readonly reason: string;
  readonly act: Act;
  readonly now: UnixMs;
}

const countAll = async (ports: ErasurePorts, target: ErasureTarget): Promise<Counts> => {
  const { pool, clickhouse } = ports;
  const events = await countEvents(clickhouse, target);
  const own = await countOwnRows(pool, target, await findEvents(clickhouse, target));
  const listed = await transaction(pool, [target.clientId], (tx) => countListRows(tx, target), { isReadOnly: true });
  const { keys, members } = await findInRedis(ports, target);
  return {
    "`events` of ClickHouse: views, clicks, signals, custom events": events.visits,
    "`events` of ClickHouse: orders, refunds, leads and installs (the money stays)": events.money,
    "`consent_changes` of ClickHouse": events.consentChanges,
    "`product_sales` (the money stays)": own.product_sales,
    "`app_events` (what earned something stays)": own.app_events,
    "`conversions` (the money stays)": own.conversions,
    "`outbox`: events that were sent": own.outbox,
    ...listCounts(listed),
    "fast memory and hints in Redis": keys.length + members.length,
  };
};
const listCounts = ({ identityEdges, leads, recordings, payloads }: ListCounts): Counts => ({
  "`identity_edges`": identityEdges,
  "`lead_people` and its keys": leads,
  "`recordings` and their keys": recordings,
  "`source_payloads` (all of the client)": payloads,
});

interface SubjectDevices {
  readonly target: ErasureTarget;
  readonly uses: readonly DeviceUse[];
}
const findNow = async (
  { pool, clickhouse }: ErasurePorts,
  { clientId, subject, now }: ErasureRequest,
): Promise<SubjectDevices> => {
  const seen = await transaction(pool, [clientId], (tx) => findTarget(tx, clientId, subject, now), {
    isReadOnly: true,
  });
  const uses = await usesOf(clickhouse, seen);
  return { target: withoutClaimed(seen, uses), uses };
};

const reportOf = ({ target, uses }: SubjectDevices, before: Counts, after: Counts | null): ErasureReport => ({
  client_id: target.clientId,
  subject_kind: target.subject.kind,
  dry_run: after === null,
  devices: target.devices.length,
  shared_devices: target.shared.length,
  device_uses: uses,
  places: placesOf(before, after),
  stays,
});

/** Counts what an erasure would find. Writes nothing. */
export const previewErasure = async (ports: ErasurePorts, request: ErasureRequest): Promise<ErasureReport> => {
  const found = await findNow(ports, request);
  return reportOf(found, await countAll(ports, found.target), null);
};

/**
 * Writes the list of erased subjects with all that goes in the same transaction, waits until every
 * writer knows it, and erases the rows. Each step may be done again: after a crash the same call
 * goes on, and after a whole run another one finds nothing. Throws the error of a store.
 */
export const eraseSubject = async (ports: ErasurePorts, request: ErasureRequest): Promise<ErasureReport> => {
  const found = await findNow(ports, request);
  const before = await countAll(ports, found.target);
  const { target, listed } = await listSubject(ports, request, found.uses);
  await (ports.untilKnown ?? (() => sleep(knownWithinMs)))();
  const late = await eraseLateEdges(ports.pool, target);
  await eraseRows(ports, target);
  await eraseChoices(ports.clickhouse, target);
  await eraseInRedis(ports.redis, await findInRedis(ports, target));
  // What went with the list was counted there, because new rows come in the meantime.
  const first = listCounts({ ...listed.before, identityEdges: listed.before.identityEdges + late });
  const after = { ...(await countAll(ports, target)), ...listCounts(listed.after) };
  const report = reportOf({ target, uses: found.uses }, { ...before, ...first }, after);
  await transaction(ports.pool, [target.clientId], (tx) =>
    writeAudit(tx, request.act, { ...entryOf(target), action: "erase.completed", after: { places: report.places } }),
  );
  return report;
};

/** The devices are found in the transaction that deletes the edges which lead to them. */
const listSubject = (
  { pool }: ErasurePorts,
  request: ErasureRequest,
  uses: readonly DeviceUse[],
): Promise<SubjectList> => {
  const { clientId, subject, reason, act, now } = request;
  return transaction(pool, [clientId], async (tx) => {
    const target = withoutClaimed(await findTarget(tx, clientId, subject, now), uses);
    const before = await countListRows(tx, target);
    await suppressWithin(tx, clientId, listedOf(target), { since: now, reason, actor: act.actor });
    const found = { devices: target.devices.length, shared_devices: target.shared.length };
    await writeAudit(tx, act, { ...entryOf(target), action: "erase.requested", after: { reason, ...found } });
    return { target, listed: { before, after: await countListRows(tx, target) } };
  });
};
interface SubjectList {
  readonly target: ErasureTarget;
  /** What goes in the transaction of the list. */
  readonly listed: { readonly before: ListCounts; readonly after: ListCounts };
}

/** The audit names the subject as the list of erased ones does. */
const entryOf = ({ clientId, subject }: ErasureTarget) => ({
  client_id: clientId,
  entity: `erasure:${subject.kind}:${subject.forms[0]}`,
});

/**
 * Postgres first: its rows of an event are found by what the analytics store still says of it. A
 * crash between the last two steps leaves counts of views in rollups, which name no one.
 */
const eraseRows = async ({ pool, clickhouse }: ErasurePorts, target: ErasureTarget): Promise<void> => {
  for (;;) {
    const events = await findEvents(clickhouse, target);
    await eraseOwnRows(pool, target, events);
    if (events.length === 0) return;
    await eraseEvents(clickhouse, target, events);
    await markMinutes(
      pool,
      [...new Set(events.map(({ minute }) => minute))].map((minute) => [target.clientId, minute] as const),
    );
  }
};
