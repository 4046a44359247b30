// Erases a subject from the analytics store: rows of visits go, rows of money lose what names a
// person.
import { setTimeout as sleep } from "node:timers/promises";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { literal } from "../../../infra/clickhouse/sql-fragments.ts";
import { isOfMoney, scrubbedEvent } from "../scrub.ts";
import { type ErasureTarget, peopleOf } from "./target.ts";

/** An event of the subject. */
export interface FoundEvent {
  readonly eventId: string;
  /** Other stores may know its id from another device: then they mean another event. */
  readonly did: string;
  /** The customer of its conversion, if that is a person. */
  readonly persons: readonly string[];
  /** The device for statements that the analytics store keeps. */
  readonly mark: string;
  /** The first second of its minute. */
  readonly minute: number;
  readonly isOfMoney: boolean;
}
export interface EventCounts {
  readonly visits: number;
  readonly money: number;
  readonly consentChanges: number;
}

/**
 * A number for the device of an event. The store keeps the text of statements that change rows, and
 * a device must not be in it.
 */
const MARK = "toString(sipHash64(did, event_id))";
/**
 * Events of one statement. It names them by their ids: the store keeps the text of such statements,
 * and an id names no one.
 */
const AT_ONCE = 20_000;
const POLL_MS = 200;
/** Much more than the store needs to rewrite some months of a large client. */
const LONGEST_MS = 3_600_000;
const settings = { max_query_size: "4000000" };

const LEAD_ID = `if(JSONType(props, 'client_lead_id') = 'String', JSONExtractString(props, 'client_lead_id'),
  JSONExtractRaw(props, 'client_lead_id'))`;

/** Where an event may name a person. */
export const personTexts = "concat(ifNull(person, ''), ' ', props, ' ', ifNull(url, ''), ' ', ifNull(ref, ''))";

/** Each condition is there only where its list has something. */
const conditionsOf = (target: ErasureTarget): readonly string[] => {
  const people = peopleOf(target).length > 0;
  return [
    ...(target.devices.length > 0 ? ["did in {devices:Array(String)}"] : []),
    ...(people ? [`multiSearchAny(${personTexts}, {people:Array(String)})`] : []),
    ...(target.subject.kind === "order_id" ? ["order_id in {ids:Array(String)}"] : []),
    ...(target.subject.kind === "client_lead_id"
      ? [`(t = 'lead_submit' and (lead_key in {forms:Array(String)} or ${LEAD_ID} in {ids:Array(String)}))`]
      : []),
  ];
};

const asked = (target: ErasureTarget) => {
  const conditions = conditionsOf(target);
  return {
    where: `client_id = {client:UInt32} and least(ts, received_at) <= fromUnixTimestamp64Milli({since:Int64})
      and (${conditions.length === 0 ? "0" : conditions.join(" or ")})`,
    query_params: {
      client: target.clientId,
      since: target.since,
      devices: target.devices,
      people: peopleOf(target),
      forms: target.subject.forms,
      ids: target.subject.ids,
    },
  };
};

const rowsOf = async <Row extends readonly unknown[]>(
  clickhouse: Clickhouse,
  query: string,
  query_params: Record<string, unknown>,
): Promise<readonly Row[]> =>
  (await clickhouse.query({ query, query_params, format: "JSONCompactEachRow" })).json<Row>();

/** The next events of the subject, at most as many as one statement names. */
export const findEvents = async (clickhouse: Clickhouse, target: ErasureTarget): Promise<readonly FoundEvent[]> => {
  const { where, query_params } = asked(target);
  const rows = await rowsOf<readonly [string, string, readonly string[], string, number, number]>(
    clickhouse,
    `select event_id, did, groupUniqArray(person), ${MARK}, any(toUnixTimestamp(toStartOfMinute(ts))),
        max(toUInt8(${isOfMoney}))
      from events where ${where} group by event_id, did order by event_id, did limit ${AT_ONCE}`,
    query_params,
  );
  return rows.map(([eventId, did, persons, mark, minute, money]) => ({
    ...{ eventId, did, persons, mark, minute: Number(minute), isOfMoney: Number(money) === 1 },
  }));
};

/** What a device chooses after its erasure is new. */
const CHOICES = `client_id = {client:UInt32} and did in {devices:Array(String)}
  and at <= fromUnixTimestamp64Milli({since:Int64})`;

export const countEvents = async (clickhouse: Clickhouse, target: ErasureTarget): Promise<EventCounts> => {
  const { where, query_params } = asked(target);
  const [events] = await rowsOf<readonly [string, string]>(
    clickhouse,
    `select uniqExactIf(event_id, not ${isOfMoney}), uniqExactIf(event_id, ${isOfMoney}) from events where ${where}`,
    query_params,
  );
  const [choices] = await rowsOf<readonly [string]>(
    clickhouse,
    `select uniqExact(did, event_id) from consent_changes where ${CHOICES}`,
    query_params,
  );
  return { visits: Number(events![0]), money: Number(events![1]), consentChanges: Number(choices![0]) };
};

/** Resolves when the store has rewritten every part that held one of them. */
export const eraseEvents = async (
  clickhouse: Clickhouse,
  { clientId, subject }: ErasureTarget,
  events: readonly FoundEvent[],
): Promise<void> => {
  const [visits, money] = [false, true].map((isWanted) => events.filter(({ isOfMoney }) => isOfMoney === isWanted));
  // The key of a lead is made of its person.
  const changes = [...scrubbedEvent, "lead_key = null"];
  if (subject.orderName !== null)
    changes.push(`order_id = ${literal(subject.orderName).expression}`, "dedup_key = null");
  const indexed = events.map(({ eventId }) => eventId);
  if (indexed.length > 0)
    await change(clickhouse, `alter table device_events delete where ${among(clientId, indexed)}`);
  if (visits!.length > 0) await change(clickhouse, `alter table events delete where ${those(clientId, visits!)}`);
  if (money!.length > 0)
    await change(clickhouse, `alter table events update ${changes.join(", ")} where ${those(clientId, money!)}`);
  await untilChanged(clickhouse, "device_events");
  await untilChanged(clickhouse, "events");
};

/** Deletes what the devices chose. Their rows are found by the ids of the events that said it. */
export const eraseChoices = async (clickhouse: Clickhouse, target: ErasureTarget): Promise<void> => {
  if (target.devices.length === 0) return;
  const { query_params } = asked(target);
  for (;;) {
    const found = await rowsOf<readonly [string]>(
      clickhouse,
      `select distinct event_id from consent_changes where ${CHOICES} limit ${AT_ONCE}`,
      query_params,
    );
    if (found.length === 0) return;
    const ids = found.map(([eventId]) => eventId);
    await change(clickhouse, `alter table consent_changes delete where ${among(target.clientId, ids)}`);
    await untilChanged(clickhouse, "consent_changes");
  }
};

const among = (clientId: number, ids: readonly string[]): string =>
  `client_id = ${clientId} and event_id in (${ids.map((id) => literal(id).expression).join(", ")})`;

/** The id finds a row fast; the mark leaves out one of another device. */
const those = (clientId: number, events: readonly FoundEvent[]): string => {
  const ids = events.map(({ eventId }) => eventId);
  return `${among(clientId, ids)} and ${MARK} in (${events.map(({ mark }) => literal(mark).expression).join(", ")})`;
};

const change = async (clickhouse: Clickhouse, query: string): Promise<void> => {
  await clickhouse.command({ query, clickhouse_settings: settings });
};

const untilChanged = async (clickhouse: Clickhouse, table: string): Promise<void> => {
  for (const end = performance.now() + LONGEST_MS; ; await sleep(POLL_MS)) {
    const going = await rowsOf<readonly [string]>(
      clickhouse,
      `select latest_fail_reason from system.mutations
        where database = currentDatabase() and table = {table:String} and not is_done limit 1`,
      { table },
    );
    if (going.length === 0) return;
    if (performance.now() > end)
      throw new Error(`the analytics store is still rewriting ${table}; run the same command again to go on`);
  }
};
