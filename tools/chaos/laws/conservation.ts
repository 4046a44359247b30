// C: every acknowledged event is stored, every stored event was sent, and the sums agree.

import { openObjects } from "../../../infra/objects/open.ts";
import { until } from "../../../infra/runtime/timing/wait-until.ts";
import { archiving } from "../../../modules/log/groups/archive-group.ts";
import { checkArchive } from "../../../sinks/archive/check.ts";
import type { LogPicture } from "../log-picture.ts";
import type { Target } from "../target.ts";
import { type Evidence, elsewhere, kept, type Law, missing, open, unless } from "./law.ts";

const INDEXED_MS = 20_000;
const LETTERS_MS = 20_000;

/** Records of `events.raw` by client, and their events without a dead letter. */
const receivedByClient = (log: LogPicture, session: string) => {
  const letters = new Set(log.letters.flatMap(({ eventId }) => eventId ?? []));
  const byClient = new Map<number, { distinct: number; records: number }>();
  for (const { id, senderId, clientId, records } of log.raw.values()) {
    if (senderId?.startsWith(session) !== true) continue;
    const sum = byClient.get(clientId) ?? { distinct: 0, records: 0 };
    byClient.set(clientId, { distinct: sum.distinct + (letters.has(id) ? 0 : 1), records: sum.records + records });
  }
  return byClient;
};

const storedByClient = async (target: Target, session: string) => {
  const stored = await target.select<{ client_id: number; ids: string; rows: string }>(
    "select client_id, uniqExact(event_id) as ids, count() as rows from events final where " +
      `startsWith(sender_event_id, '${session}') group by client_id`,
  );
  return new Map(stored.map(({ client_id: id, ids, rows }) => [id, { ids: Number(ids), rows: Number(rows) }]));
};

/**
 * Places of unreadable records without a dead letter. The keeper may have sent a letter again after
 * everything was quiet, whose next letter follows within seconds.
 */
const withoutLetter = async (log: LogPicture, readOn: Evidence["readOn"]): Promise<readonly string[]> => {
  const unread = () => {
    const letters = new Set(log.letters.map(({ at }) => at));
    return log.unreadable.filter((at) => !letters.has(at));
  };
  await until("every unreadable record is a dead letter", LETTERS_MS, async () => {
    if (unread().length === 0) return;
    await readOn();
    throw new Error("some are not");
  }).catch(() => undefined);
  return unread();
};

/** Where changes of conversions or ledger entries in the log differ in number from the tables. */
const unstoredMoney = async (target: Target, log: LogPicture): Promise<readonly string[]> => {
  // A conversion's version counts its changes.
  const [money] = await target.rows<{ changes: number; entries: number }>(
    "select (select coalesce(sum(version), 0)::int from conversions) as changes, (select " +
      "count(*)::int from ledger_entries) as entries",
  );
  const sums = {
    changes: log.recorded.get("conversions")!.size,
    entries: log.recorded.get("ledger.entries")!.size,
  };
  return (["changes", "entries"] as const).flatMap((name) =>
    money![name] === sums[name] ? [] : [`${sums[name]} ${name} in the log, ${money![name]} stored`],
  );
};

export const conservation: readonly Law[] = [
  {
    id: "C1",
    says: "of every answer accepted + rejected = submitted, and errors agree with rejected",
    check: ({ journal }) => {
      const answers = journal.answers();
      const wrong = answers.filter(
        (said) => said.accepted + said.rejected !== said.submitted || said.errors !== said.rejected,
      );
      return unless(
        wrong.map((said) => JSON.stringify(said)),
        `${answers.length} answers, ${answers.reduce((sum, { rejected }) => sum + rejected, 0)} events refused in them`,
      );
    },
  },
  {
    id: "C2",
    says:
      "every acknowledged event is in events.raw and in the table, and nothing is that was neither " +
      "acknowledged nor left without an answer",
    check: ({ journal, log, session, cycle, events }) => {
      const outcomes = journal.outcomes();
      const inLog = new Set<string>();
      for (const { senderId } of log.raw.values()) if (senderId?.startsWith(session) === true) inLog.add(senderId);
      const ok = [...outcomes].filter(([, outcome]) => outcome === "ok").map(([id]) => id);
      const inTable = new Set(events.map(({ id }) => id));
      return unless(
        [
          ...ok.filter((id) => !inLog.has(id)).map((id) => `${id} was acknowledged and is not in the log`),
          ...ok
            .filter((id) => id.startsWith(cycle) && !inTable.has(id))
            .map((id) => `${id} was acknowledged and is not in events`),
          ...[...inLog].filter((id) => (outcomes.get(id) ?? "fail") === "fail").map((id) => `${id} is a phantom`),
        ],
        `${ok.length} acknowledged, ${inLog.size} in the log, ` +
          `${[...outcomes.values()].filter((outcome) => outcome === "unknown").length} unknown`,
      );
    },
  },
  {
    id: "C3",
    says:
      "records of events.raw = stored distinct + duplicates + dead letters, by client; what settle and " +
      "commission wrote is stored too",
    check: async ({ target, log, session, isOurs, readOn }) => {
      const inLog = receivedByClient(log, session);
      const stored = await storedByClient(target, session);
      const unreadable = await withoutLetter(log, readOn);
      const unstored = isOurs ? await unstoredMoney(target, log) : [];
      const all = [...inLog.values()];
      return unless(
        [
          ...[...inLog].flatMap(([client, { distinct }]) => {
            const { ids = 0, rows = 0 } = stored.get(client) ?? {};
            return ids === distinct && rows === distinct
              ? []
              : [`client ${client}: ${distinct} in the log, ${ids} stored in ${rows} rows`];
          }),
          ...unreadable.map((at) => `${at} is unreadable and no dead letter`),
          ...unstored,
        ],
        `${all.reduce((sum, { records }) => sum + records, 0)} records = ` +
          `${all.reduce((sum, { distinct }) => sum + distinct, 0)} stored + duplicates, ` +
          `${log.letters.length} dead letters`,
      );
    },
  },
  {
    id: "C4",
    says: "dead letters in = reprocessed + discarded + waiting + parked, and dlq_depth of health says waiting + parked",
    check: async ({ target, log }) => {
      if (log.letters.length === 0) return open("no dead letter yet");
      // The index and the figure of health follow within seconds.
      return until("the index of dead letters is whole", INDEXED_MS, async () => {
        const states = await target.rows<{ state: string; kind: string; n: number }>(
          "select state, kind, count(*)::int as n from dead_letters group by state, kind",
        );
        const sum = (of: readonly string[]) =>
          states.filter(({ state }) => of.includes(state)).reduce((all, { n }) => all + n, 0);
        const failures = new Set(
          (
            await target.rows<{ at: string }>(
              "select source_topic || '/' || source_partition || '@' || source_offset as at from dead_letter_failures",
            )
          ).map(({ at }) => at),
        );
        const missing = log.letters
          .filter(({ at }) => !failures.has(at))
          .map(({ at }) => `${at} is a dead letter and not in the index`);
        const waiting = sum(["waiting", "retrying", "parked"]);
        const health = (await (
          await fetch(`${target.run().apps.ingest!.url}/health`, { signal: AbortSignal.timeout(5_000) })
        ).json()) as {
          dlq_depth?: Readonly<Record<string, number | null>>;
        };
        const reported = Object.values(health.dlq_depth ?? {}).reduce<number>((all, count) => all + (count ?? 0), 0);
        const found = unless(
          [...missing, ...(reported === waiting ? [] : [`health says ${reported}, the index ${waiting}`])],
          `${sum(["waiting", "retrying", "parked", "reprocessed", "discarded"])} letters: ` +
            `${states.map(({ state, n }) => `${n} ${state}`).join(", ")}`,
        );
        if (found.verdict === "broken") throw new Error(found.evidence);
        return found;
      });
    },
  },
  missing("C5", "pixel answers = stored + duplicate + dead letter + refused", "the pixel"),
  elsewhere("C6", "302 answers = clicks stored + dead letters + filtered", "tests/edges/links-http.test.ts"),
  {
    id: "C7",
    says: "by client and day the rollups say what the rows say",
    check: async ({ target, isOurs }) => {
      if (!isOurs) return open("others send to this stack, so rows and rollups are never of one moment");
      const rows = await target.select<{
        client_id: number;
        day: string;
        rows: string;
        rolled: string;
        revenue: string;
        rolled_revenue: string;
      }>(
        `select client_id, day, sum(r) as rows, sum(s) as rolled, sum(v) as revenue, sum(w) as rolled_revenue from (
           select client_id, toUnixTimestamp(toStartOfDay(ts, 'America/Mexico_City')) as day, toInt64(count()) as r,
             toInt64(0) as s,
             sum(if(t in ('purchase', 'ext_purchase'), toInt128(ifNull(value_minor, 0)), toInt128(0))) as v,
               toInt128(0) as w
           from events_current group by client_id, day
           union all
           select client_id, toUnixTimestamp(bucket) as day, toInt64(0) as r, toInt64(sum(events)) as s,
             toInt128(0) as v, sum(revenue_minor) as w
           from rollups final where grain = 'day' group by client_id, day
         ) group by client_id, day`,
      );
      const wrong = rows.filter((row) => row.rows !== row.rolled || row.revenue !== row.rolled_revenue);
      return unless(
        wrong.map(
          (row) =>
            `client ${row.client_id} on ${new Date(Number(row.day) * 1000).toISOString()}: ${row.rows} ` +
            `events, ${row.rolled} rolled up; ${row.revenue} and ${row.rolled_revenue}`,
        ),
        `${rows.length} client-days agree; the dashboard's JSON is not provable yet: dashboards`,
      );
    },
  },
  missing("C8", "rows of a file = imported + duplicate + rejected", "imports"),
  missing("C9", "pulling a window again changes no count", "external sales"),
  {
    id: "C10",
    says: "no 200 before the event is in the log, or in a synced spool",
    check: ({ findings, log, session }) => {
      const asked = findings.get("C10") ?? [];
      if (asked.length === 0) return open("no edge was killed right after its answer in this cycle");
      const ids = asked.flatMap(({ evidence }) => evidence.split(" ")).filter((id) => id.startsWith(session));
      const inLog = new Set([...log.raw.values()].map(({ senderId }) => senderId));
      return ids.length === 0
        ? open("the killed edge had acknowledged nothing")
        : unless(
            ids
              .filter((id) => !inLog.has(id))
              .map((id) => `${id} was acknowledged by an edge that was killed right after, and is lost`),
            `${ids.length} events of ${asked.length} answers that were followed by kill -9 are in the log`,
          );
    },
  },
  {
    id: "C11",
    says: "the files of the archive cover everything that is committed there, no gap, no overlap, no damage",
    check: async ({ target }) => {
      const objects = openObjects(target.env.OBJECT_STORE_URL!);
      try {
        const { files, events, gaps, overlaps, damaged } = await target.withAdmin((admin) =>
          checkArchive(objects, admin, archiving),
        );
        const at = (what: string) => (one: { partition: number; from: number; until: number }) =>
          `${what} in partition ${one.partition} from ${one.from} to ${one.until}`;
        return unless(
          [
            ...gaps.map(at("gap")),
            ...overlaps.map(at("overlap")),
            ...damaged.map(({ key, message }) => `${key}: ${message}`),
          ],
          `${files} files with ${events} events, every one read and its checksum compared`,
        );
      } finally {
        await objects.close();
      }
    },
  },
];

export const tenants: readonly Law[] = [
  {
    id: "T1",
    says: "every amount of a tenant is a multiple of its own prime, in every store",
    check: async ({ target, generator, session }) => {
      const primeOf = new Map([...generator.sales.values()].map(({ tenant }) => [tenant.id, tenant.prime]));
      const cases = [...primeOf]
        .map(([id, prime]) => `(client_id = ${id} and value_minor % ${prime} <> 0)`)
        .join(" or ");
      if (cases === "") return open("nothing was sold");
      const [inEvents] = await target.select<{ n: string }>(
        `select count() as n from events final where startsWith(sender_event_id, '${session}') and t = ` +
          `'purchase' and (${cases})`,
      );
      const [inSales] = await target.rows<{ n: number }>(
        "select count(*)::int as n from product_sales where t = 'purchase' and order_id like " +
          `'${session}%' and (${cases})`,
      );
      const wrong = Number(inEvents!.n) + inSales!.n;
      return wrong === 0
        ? kept(`${primeOf.size} tenants, primes ${[...primeOf.values()].join(", ")}`)
        : unless([`${wrong} rows`], "");
    },
  },
  elsewhere("T2", "row-level security is forced on every tenant table", "tests/contracts/row-level-security.test.ts"),
  elsewhere("T3", "interleaved tenant requests do not bleed", "tests/api/proof/interleaved.test.ts"),
];
