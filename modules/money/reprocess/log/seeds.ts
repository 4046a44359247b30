// What stages would have remembered of the devices of a window: the stored events that shaped it,
// to be folded in front of the first event that reads it. So the log before the window is not read.
import { PERSONAL_FORM } from "../../../../domain/personal/personal-form.ts";
import { journey } from "../../../../processors/attribute/journey.ts";
import { person, profileLifetimeMs } from "../../../../processors/enrich/identity.ts";
import type { EventReceived } from "../../../../schemas/generated.ts";
import type { Recorded, UnixMs } from "../../../../stream/flow.ts";
import { topics } from "../../../../topics.ts";
import type { ReprocessPorts, ReprocessSettings, ShapingEvent } from "../ports.ts";

interface Seed {
  readonly event: Recorded<EventReceived>;
  readonly row: ShapingEvent;
}
export interface Seeds {
  /** Reads what shaped the devices of these events, once a device. */
  readonly learn: (events: readonly Recorded<EventReceived>[]) => Promise<void>;
  /** Takes what shaped the event's device before it, oldest first. */
  readonly before: (event: Recorded<EventReceived>) => readonly Seed[];
}

/**
 * Offsets of a shadow are multiples of this, so that seeds lie between two records: memory shows an
 * event what was remembered at smaller offsets. No device has as many seeds.
 */
const ROOM = 1_024;

/** The same event at an offset that leaves room in front of it. */
export const spaced = <T>(event: Recorded<T>, before = 0): Recorded<T> => ({
  ...event,
  position: { ...event.position, offset: event.position.offset * ROOM - before },
});

/**
 * Whether an event needs the memory of its device. A click alone needs no journey: it only adds to
 * it, in any order.
 */
const isReader = (event: Recorded<EventReceived>, { stage }: Pick<ReprocessSettings, "stage">): boolean =>
  stage === "enrich"
    ? person.keysOf(event).length > 0 || hasJourney(event)
    : event.data.t !== "click" && hasJourney(event);
const hasJourney = (event: Recorded<EventReceived>): boolean =>
  journey.keysOf({ ...event, data: { event: event.data } }).length > 0;

const seedOf = (row: ShapingEvent): Recorded<EventReceived> => {
  const data = { ...row.event, personal_form: PERSONAL_FORM };
  const { event_id: id, ts } = data;
  const [at, receivedAt] = [Math.min(ts, row.received_at), row.received_at];
  const position = { topic: topics.eventsRaw.name, partition: 0, offset: 0 };
  return { id, key: topics.eventsRaw.keyOf(data), at, receivedAt, position, data };
};

/** `journeyMs`: the longest time before an event in which a click can count for it. */
export const openSeeds = (
  { shaping }: Pick<ReprocessPorts, "shaping">,
  settings: Pick<ReprocessSettings, "from" | "to" | "stage">,
  { from, journeyMs }: { readonly from: UnixMs; readonly journeyMs: number },
): Seeds => {
  const isOfWindow = ({ received_at }: ShapingEvent): boolean =>
    received_at >= settings.from && received_at < settings.to;
  const since = from - (settings.stage === "enrich" ? Math.max(journeyMs, profileLifetimeMs) : journeyMs);
  const left = new Map<string, Seed[]>();
  return {
    learn: async (events) => {
      const byClient = new Map<number, Map<string, string>>();
      for (const event of events) {
        if (left.has(event.key) || !isReader(event, settings)) continue;
        const { client_id, did } = event.data;
        byClient.set(client_id, (byClient.get(client_id) ?? new Map<string, string>()).set(event.key, did));
      }
      for (const [client_id, devices] of byClient) {
        for (const key of devices.keys()) left.set(key, []);
        const clicksOnly = settings.stage !== "enrich";
        const rows = await shaping({ client_id, devices: [...devices.values()], since, clicksOnly });
        // Those of the window come from the log, in its order.
        for (const row of rows.filter((one) => !isOfWindow(one))) {
          const event = seedOf(row);
          left.get(event.key)?.push({ event, row });
        }
        for (const key of devices.keys()) left.get(key)!.sort((a, b) => a.event.receivedAt - b.event.receivedAt);
      }
    },
    before: (event) => {
      const known = left.get(event.key);
      if (known === undefined || known.length === 0 || !isReader(event, settings)) return [];
      const n = known.findIndex((seed) => seed.event.receivedAt >= event.receivedAt);
      const some = known.splice(0, n === -1 ? known.length : n).slice(1 - ROOM);
      const { position } = event;
      return some.map((seed, k) => ({
        row: seed.row,
        event: spaced({ ...seed.event, position }, some.length - k),
      }));
    },
  };
};
