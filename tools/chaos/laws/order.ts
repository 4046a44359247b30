// R and I: one id has one content and one row, versions count changes, offsets never jump, and
// repeating the past changes nothing.
import { type Evidence, elsewhere, foundBy, kept, type Law, missing, open, unless } from "./law.ts";

/** Versions of an event are 1, 2, ... without a gap, and the table shows the newest. */
const versionsOf = ({ log, events }: Evidence): readonly string[] => {
  const wrong: string[] = [];
  const changes = new Map<string, number>();
  for (const eventId of log.decisions.values()) changes.set(eventId, (changes.get(eventId) ?? 0) + 1);
  for (const { id, event_id: eventId, version } of events) {
    const found = log.versions.get(eventId);
    if (found === undefined) {
      wrong.push(`${id} is stored and not in events.attributed`);
      continue;
    }
    const newest = Math.max(...found);
    if (newest !== found.size) wrong.push(`${id} has the versions ${[...found].sort((a, b) => a - b).join(", ")}`);
    if (newest !== version) wrong.push(`${id}: version ${version} is shown, ${newest} is the newest`);
  }
  return wrong;
};

export const replays: readonly Law[] = [
  foundBy("R1", "a replay or a rewind of any window leaves every table as it was (H)", "replay or rewind"),
  foundBy("R2", "what was deleted comes back by replay, and H is as before", "deletion"),
  {
    id: "R3",
    says: "versions count changes: 1, 2, ... without a gap, and the newest is shown",
    check: (evidence) =>
      unless(
        versionsOf(evidence),
        `${evidence.events.length} events of this cycle, ${evidence.log.decisions.size} decisions`,
      ),
  },
  elsewhere(
    "R4",
    "nothing of an erased person returns",
    "tests/guarantees/replay.test.ts for replays; erasure itself is to come",
  ),
  foundBy(
    "R5",
    "everything rebuilt into empty stores, each stage from its own input, is the live state (H)",
    "rebuild",
  ),
  elsewhere("R6", "a replay under live traffic and faults changes nothing", "tests/guarantees/replay.test.ts"),
  elsewhere("R7", "overlapping replays, and one killed midway, give the same H", "tests/guarantees/replay.test.ts"),
  elsewhere(
    "R8",
    "outcomes do not depend on batch cuts or hosting",
    "tests/guarantees/hosting.test.ts, counts-once.test.ts",
  ),
  elsewhere("R9", "no clock, randomness, locale or environment in processors", "tests/topology/imports.test.ts"),
  foundBy("R10", "a rewind moves no partition forward", "rewind"),
  {
    id: "R11",
    says:
      "one id has one content in conversions and ledger.entries; the credit shown on an event is the " +
      "one that was settled",
    check: async (evidence) => {
      const { target, log, session, events } = evidence;
      const shown = new Map(
        events
          .filter(({ t, merged_into: merged }) => t === "purchase" && merged === null)
          .map((event) => [event.event_id, event.credit_status === "attributed" ? event.partner_id : null]),
      );
      // A line that was refunded as a whole is still shown as credited to the partner of its sale.
      const settled = await target.rows<{ event_id: string; partner_id: number }>(
        `select event_id::text as event_id, partner_id from conversions where order_id like '${session}%'`,
      );
      const credited = new Map(settled.map(({ event_id: id, partner_id: partner }) => [id, partner]));
      const wrong = [
        ...log.contradictions.map((id) => `${id} has two contents`),
        ...[...shown].flatMap(([id, partner]) =>
          (credited.get(id) ?? null) === partner
            ? []
            : [`event ${id} shows partner ${partner}, settled was ${credited.get(id) ?? null}`],
        ),
      ];
      const records = [...log.recorded.values()].flatMap((ids) => [...ids.values()]);
      const again = records.reduce((sum, one) => sum + one.records - 1, 0);
      return unless(
        wrong,
        `${records.length} ids, ${again} records came again with the same content; ${shown.size} credits shown`,
      );
    },
  },
  elsewhere("R12", "new code reaches the past only through reprocess", "tests/contracts of rewind and reprocess"),
  elsewhere(
    "R13",
    "an event meets the newest state older than itself; durable memory answers with its recorded outcome",
    "tests/guarantees/counts-once.test.ts, decided-once.test.ts, tests/contracts/memory.test.ts",
  ),
  elsewhere("R14", "hints are recorded on the event", "tests/guarantees/hints-stand.test.ts"),
  elsewhere("R15", "who came second under one id comes second in a rebuild", "tests/processors/taken-ids.test.ts"),
];

export const order: readonly Law[] = [
  elsewhere("I1", "100 parallel pushes of one lead are one row", "tests/api/leads/push.test.ts"),
  {
    id: "I2",
    says: "one event id is one row, however often and by whomever it was sent",
    check: ({ events, log, session }) => {
      const again = [...log.raw.values()].filter(
        ({ senderId, records }) => records > 1 && senderId?.startsWith(session) === true,
      );
      return unless(
        events.filter(({ rows }) => rows !== 1).map(({ id, rows }) => `${id} has ${rows} rows`),
        `${events.length} rows; ${again.length} events of this session came more than once`,
      );
    },
  },
  elsewhere("I3", "one idempotency key has one answer", "tests/api/foundation.test.ts"),
  missing("I4", "each outbound webhook is delivered at least once", "webhooks"),
  {
    id: "I5",
    says: "sinks apply the records of one key in log order: what is shown is the newest",
    check: async ({ target, cycle }) => {
      const rows = await target.rows<{ wrong: number }>(
        `select count(*)::int as wrong from conversions c where order_id like '${cycle}%'
         and version < (select max(conversion_version) from ledger_entries e where e.client_id = c.client_id
           and e.conversion_id = c.conversion_id)`,
      );
      const wrong = rows[0]!.wrong;
      return wrong === 0
        ? kept("no conversion is older than its own entries")
        : unless([`${wrong} conversions are older than their entries`], "");
    },
  },
  {
    id: "I6",
    says: "offsets go back only by a logged rewind",
    check: ({ watched }) =>
      watched.samples === 0
        ? open("offsets could not be read in this cycle")
        : unless(watched.wentBack, `${watched.samples} readings of all groups`),
  },
];
