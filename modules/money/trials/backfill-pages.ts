// Decides about the pages of a backfill, and stores the progress for the process that continues it.
import { hit } from "#failpoint";
import type { HistoryPlace } from "../../../sinks/analytics/history.ts";
import type { Change } from "../reprocess/changes.ts";
import { answersTo, produceChanges, type WritePorts } from "../reprocess/write.ts";
import type { Fate } from "./choose-decisions.ts";
import type { Page } from "./evaluate.ts";
import { type Booking, type KeptSummary, openSummary } from "./summary.ts";

/** The changes of a page to write, and how many are left. */
const chosenIn = ({ matches }: Page) => {
  const of = (fate: Fate) => matches.filter((one) => one.fate === fate);
  return {
    changes: of("sent").flatMap(({ change }) => change ?? []),
    left_to_recalc: of("left_to_recalc").length,
    left_in_closed_months: of("left_in_closed_months").length,
  };
};
type ChosenChanges = ReturnType<typeof chosenIn>;

/** The decisions of a page, and the bookings of each. */
interface BegunPage {
  readonly ids: readonly string[];
  readonly books: readonly (Omit<Booking, "amount_minor"> & {
    readonly decision_id: string;
    readonly amount_minor: string;
  })[];
}
interface Counts {
  readonly decisions: number;
  readonly applied: number;
  readonly overtaken: number;
  readonly waiting: number;
  readonly left_to_recalc: number;
  readonly left_in_closed_months: number;
}
/** The progress in the row of the job. */
export interface BackfillCheckpoint {
  /** The number of times that the window was read from its beginning, including this one. */
  readonly passes: number;
  readonly summary: KeptSummary;
  readonly written: Counts;
  /** Every page up to here is processed; null: none is. */
  readonly after: HistoryPlace | null;
  /** The next page, when it was begun; null: it was not. */
  readonly begun: BegunPage | null;
}
const NOTHING: Counts = {
  ...{ decisions: 0, applied: 0, overtaken: 0, waiting: 0 },
  ...{ left_to_recalc: 0, left_in_closed_months: 0 },
};

const FIRST_PASS: Omit<BackfillCheckpoint, "summary"> = { passes: 1, written: NOTHING, after: null, begun: null };

const sumOf = (written: Counts, more: Partial<Counts>): Counts => {
  const sums = Object.entries(more).map(([name, count]) => [name, written[name as keyof Counts] + count]);
  return { ...written, ...Object.fromEntries(sums) };
};

/** The decisions of a page that will be written; with recalculation also the bookings of each. */
const begunOf = (page: Page, changes: readonly Change[], trigger_recalc: boolean): BegunPage => {
  const ids = changes.map(({ decision_id }) => decision_id);
  const books = page.entries.flatMap(({ entry, decision_id }) => {
    const { partner_id, year, month, currency, segment, amount_minor } = entry;
    if (!trigger_recalc) return [];
    return { decision_id, partner_id, year, month, currency, segment, amount_minor: amount_minor.toString() };
  });
  return { ids, books };
};

/** The bookings of decisions that were not overtaken. */
const bookingsOf = (books: BegunPage["books"], overtaken: ReadonlySet<string>): readonly Booking[] =>
  books
    .filter(({ decision_id }) => !overtaken.has(decision_id))
    .map(({ amount_minor, decision_id, ...one }) => ({ ...one, amount_minor: BigInt(amount_minor) }));

/** Writes the decisions of a begun page; decisions that another process wrote count once. */
const writeDecisions = async (ports: WritePorts, changes: readonly Change[], ids: readonly string[]) => {
  const isMeant = new Set(ids);
  await produceChanges(
    ports,
    changes.filter(({ decision_id }) => isMeant.has(decision_id)),
  );
  return answersTo(ports, ids, () => undefined);
};

interface Paging {
  readonly trigger_recalc: boolean;
  readonly left: BackfillCheckpoint | undefined;
  /** Events processed in earlier passes. */
  readonly done: number;
}

/**
 * Decides about pages in order. Without recalculation the totals are the bookings that the changes
 * would make; with it, the ones that were applied. `keep` throws when another process has the job.
 */
export const openPages = (
  ports: WritePorts,
  { trigger_recalc, left, done: before }: Paging,
  keep: (done: number, left: BackfillCheckpoint) => Promise<void>,
) => {
  const summary = openSummary(left?.summary);
  let { passes, written, after, begun }: Omit<BackfillCheckpoint, "summary"> = left ?? FIRST_PASS;
  let done = before;
  const kept = (): Promise<void> => keep(done, { passes, written, after, begun, summary: summary.kept() });

  /** Stores the decisions of a page before any of them is written. */
  const begin = async (page: Page, { changes, ...rest }: ChosenChanges): Promise<BegunPage> => {
    // A later pass must not count the matches again.
    if (passes === 1) {
      summary.add({ ...page, entries: trigger_recalc ? [] : page.entries });
      written = sumOf(written, rest);
    }
    begun = begunOf(page, changes, trigger_recalc);
    written = sumOf(written, { decisions: begun.ids.length });
    if (begun.ids.length > 0) await kept();
    return begun;
  };
  return {
    passes: (): number => passes,
    written: (): Counts => written,
    found: () => summary.result(),
    after: (): HistoryPlace | null => after,
    take: async (page: Page): Promise<void> => {
      const chosen = chosenIn(page);
      const { ids, books } = begun ?? (await begin(page, chosen));
      const { applied, overtaken, waiting } = await writeDecisions(ports, chosen.changes, ids);
      hit("backfill-answered");
      written = sumOf(written, { applied, overtaken: overtaken.size, waiting });
      for (const booking of bookingsOf(books, overtaken)) summary.book(booking);
      done = passes === 1 ? page.passed : page.total;
      after = page.end;
      begun = null;
      await kept();
    },
    /** Prepares another pass over the window, which decides again about overtaken changes. */
    again: async (): Promise<void> => {
      passes += 1;
      written = sumOf(written, { decisions: -written.overtaken, overtaken: -written.overtaken });
      after = null;
      await kept();
    },
  };
};
