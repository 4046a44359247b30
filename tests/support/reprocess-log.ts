// What a reprocess reads, from a log in this process: the index is filled by the rows of its sink,
// and the log is read by when it has appended each event.
import type { IndexedClaim, ReprocessPorts, ShapingEvent, Stretch } from "../../modules/money/reprocess/ports.ts";
import { person } from "../../processors/enrich/identity.ts";
import type { EventAttributed, EventReceived } from "../../schemas/generated.ts";
import { inOrder } from "../../sinks/claim-positions/reads.ts";
import { claimPositionRows } from "../../sinks/claim-positions/rows.ts";
import type { Recorded, Topic, UnixMs } from "../../stream/flow.ts";
import type { InputMessage } from "../../stream/messages.ts";
import type { TopologyDriver } from "../../stream/testing/drive.ts";
import { topics } from "../../topics.ts";

export type Reading = Pick<
  ReprocessPorts,
  "stretches" | "messagesIn" | "indexed" | "claimsAt" | "countOf" | "storedAfter" | "shaping"
>;
interface LogSettings {
  /** How long after its receipt the log appended an event; 0 if absent. */
  readonly lateBy?: ((eventId: string) => number) | undefined;
  /** Hears of each message that is handed over. */
  readonly onMessage?: ((topic: string, message: InputMessage) => void) | undefined;
}

export const readingOf = (
  { wire, messages }: Pick<TopologyDriver, "wire" | "messages">,
  { lateBy = () => 0, onMessage = () => undefined }: LogSettings = {},
): Reading => {
  const decodedOf = <T>(topic: Topic<T>) =>
    messages(topic.name).map((message) => {
      const { partition, offset } = message;
      const event = wire.decode(topic, message.value, { topic: topic.name, partition, offset });
      return { event, message };
    });
  const appendedAt = ({ id, receivedAt }: Recorded<unknown>): UnixMs => receivedAt + lateBy(id);
  const isIn = (at: UnixMs, own: number, { from, until, partition }: Stretch): boolean =>
    at >= from && (until === null || at < until) && (partition === null || partition === own);
  const inStretches = (topic: Topic<any>, stretches: readonly Stretch[]) =>
    decodedOf(topic)
      .map(({ event, message }) => ({ ...message, appendedAt: appendedAt(event) }))
      // What settle records of taken ids has the times of their claims.
      .filter(
        (message) =>
          topic === topics.claimsTaken || stretches.some((one) => isIn(message.appendedAt, message.partition, one)),
      );
  const stored = (): ReadonlyMap<string, Recorded<EventAttributed>> => {
    const newest = new Map<string, Recorded<EventAttributed>>();
    for (const { event } of decodedOf(topics.eventsAttributed))
      if ((newest.get(event.id)?.data.version ?? 0) < event.data.version) newest.set(event.id, event);
    return newest;
  };
  const receivedIn = ({ from, to }: { readonly from: UnixMs; readonly to: UnixMs }) =>
    [...stored().values()].filter(({ receivedAt }) => receivedAt >= from && receivedAt < to);
  const hand = async (
    topic: string,
    all: readonly (InputMessage & { readonly partition: number })[],
    onBatch: Parameters<Reading["stretches"]>[2],
  ): Promise<void> => {
    for (const partition of [...new Set(all.map((one) => one.partition))].sort((a, b) => a - b)) {
      const some = all.filter((one) => one.partition === partition).sort((a, b) => a.offset - b.offset);
      for (const message of some) onMessage(topic, message);
      await onBatch({ topic, partition, messages: some });
    }
  };
  return {
    stretches: (topic, stretches, onBatch) => hand(topic.name, inStretches(topic, stretches), onBatch),
    messagesIn: async (topic, stretches) => inStretches(topic, stretches).length,
    indexed: async ({ from, to, clientId }) => {
      const rows = decodedOf(topics.claims)
        .flatMap(({ event }) => claimPositionRows(event))
        .filter(({ client_id }) => clientId === null || client_id === clientId);
      const nameOf = (row: (typeof rows)[number]) => `${row.client_id} ${row.order_hash}`;
      const orders = new Set(
        rows
          .filter((row) => row.is_conversion && row.received_at >= from && row.received_at < to)
          .map((row) => nameOf(row)),
      );
      const claims = inOrder(rows.filter((row) => orders.has(nameOf(row)))).map(
        (row): IndexedClaim => ({
          ...{ partition: row.log_partition, offset: row.log_offset },
          ...{ receivedAt: row.received_at, isConversion: row.is_conversion },
        }),
      );
      return { orders: orders.size, claims };
    },
    claimsAt: (claims, onBatch) => {
      const wanted = new Set(claims.map(({ partition, offset }) => `${partition} ${offset}`));
      const found = decodedOf(topics.claims)
        .filter(({ message: { partition, offset } }) => wanted.has(`${partition} ${offset}`))
        .map(({ event, message }) => ({ ...message, appendedAt: appendedAt(event) }));
      return hand(topics.claims.name, found, onBatch);
    },
    countOf: async (received) => receivedIn(received).length,
    storedAfter: async (received, since) =>
      receivedIn(received)
        .filter((event) => appendedAt(event) >= since)
        .map(({ id }) => id),
    shaping: async ({ client_id, devices, since, clicksOnly }) =>
      [...stored().values()]
        .filter(({ data: { event } }) => event.client_id === client_id && devices.includes(event.did))
        .filter(({ data: { event } }) => event.ts >= since)
        .filter((event) => event.data.event.t === "click" || (!clicksOnly && isOfPerson(event)))
        .map(({ data, receivedAt }): ShapingEvent => ({ ...data, received_at: receivedAt })),
  };
};

const isOfPerson = ({ data, ...of }: Recorded<EventAttributed>): boolean =>
  person.keysOf({ ...of, data: data.event } satisfies Recorded<EventReceived>).length > 0;
