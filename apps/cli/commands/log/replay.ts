// `tributary replay`: writes a window of the log to the stores again. Shows first what it will
// read, and at the end what it did.

import type { Command } from "commander";
import type pg from "pg";
import { CommandRefused, UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { actorOf } from "../../../../modules/base/operations/operations.ts";
import { untilRollupsComputed } from "../../../../modules/figures/rollups/rollup-marks.ts";
import { planReplay, type ReplayPlan } from "../../../../modules/log/replays/plan.ts";
import {
  cancelReplay,
  listReplays,
  openReplays,
  placeOf,
  type Replay,
  readReplay,
  requestReplay,
  type WantedReplay,
} from "../../../../modules/log/replays/replays.ts";
import {
  awaitReplay,
  progressOf,
  ReplayStalled,
  replayableSinks,
  reportOf,
} from "../../../../modules/log/replays/report.ts";
import { compareHours, type ReplayedTable } from "../../../../modules/running/state-hash/compare.ts";
import type { AnySink } from "../../../../stream/flow.ts";
import { topicSettings } from "../../../../topics.ts";
import { pipeline } from "../../../../topology.ts";
import { withAdmin } from "../../connections.ts";
import { momentOf, spanOf } from "../../moments.ts";
import { withPool } from "../../pool.ts";
import { openProgress } from "../../progress.ts";
import { hashNow } from "../running/hash.ts";

interface ReplayOptions {
  readonly hours?: string;
  readonly from?: string;
  readonly to?: string;
  readonly sink?: string;
  readonly actor?: string;
  readonly yes?: boolean;
  readonly verify?: boolean;
  readonly follow?: string;
  readonly cancel?: string;
  readonly list?: boolean;
  readonly json?: boolean;
}

const HOUR_MS = 3_600_000;
const MOST_HOURS = 24 * 366;
const STALLED_MS = 75_000;
const ROLLUPS_MS = 600_000;

const sinksOf = (text: string | undefined): readonly AnySink[] => {
  const all = replayableSinks(pipeline);
  if (text === undefined) return all;
  const names = text.split(",").map((name) => name.trim());
  const unknown = names.filter((name) => !all.some((sink) => sink.name === name));
  if (unknown.length > 0)
    throw new UsageError(`--sink: ${unknown.join(", ")} is none of ${all.map(({ name }) => name).join(", ")}`);
  return all.filter(({ name }) => names.includes(name));
};

const windowOf = ({ hours, from, to }: ReplayOptions, now: number): Pick<WantedReplay, "hours" | "from" | "to"> => {
  if ((hours === undefined) === (from === undefined))
    throw new UsageError("give the window: --hours 6, or --from <time> [--to <time>]");
  if (hours !== undefined) {
    if (to !== undefined) throw new UsageError("--to: goes with --from; --hours ends now");
    const count = /^\d{1,4}$/.test(hours) ? Number(hours) : 0;
    if (count < 1 || count > MOST_HOURS)
      throw new UsageError(`--hours: ${hours} is not a whole number from 1 to ${MOST_HOURS}`);
    return { hours: count, from: now - count * HOUR_MS, to: null };
  }
  const start = momentOf("--from", from!, now);
  const end = to === undefined ? null : momentOf("--to", to, now);
  if (start >= (end ?? now)) throw new UsageError("--from: must lie before --to, and before now");
  return { hours: null, from: start, to: end };
};

const showPlan = (plan: ReplayPlan, open: readonly Replay[]): void => {
  print(
    table(
      ["topic", "partitions", "records", "sinks"],
      plan.topics.map(({ topic, partitions, events, sinks }) => [topic, partitions, events, sinks.join(", ")]),
    ),
  );
  print(
    `${plan.from} to ${plan.to ?? "now"}: ${plan.events} records to read, about ` +
      `${spanOf(plan.estimated_seconds)}; rows that are there stay as they are, rows that were lost ` +
      "come back",
  );
  for (const text of plan.missing) tell(text);
  for (const { replay_id, ranges } of open)
    tell(
      ranges === null
        ? `${replay_id} waits: a window that it covers joins it, another waits for it`
        : `${replay_id} is running: another window waits for it, and skips what it writes from now on`,
    );
};

const showReport = (replay: Replay): void => {
  const report = reportOf(replay);
  const {
    files_scanned: files,
    events_requeued: requeued,
    events_skipped_duplicate: skipped,
    events_suppressed: suppressed,
    events_refused: refused,
  } = report;
  const hint = refused > 0 && report.ok ? ", all of them dead letters since they came: tributary dlq list" : "";
  print(
    `${report.replay_id} ${report.state}: ${files} segments read, ${requeued} records written again, ` +
      `${skipped} skipped (another replay had written them since), ${suppressed} of erased subjects ` +
      `left out, ${refused} refused${hint}`,
  );
  for (const { file, message } of report.errors) print(`${file === "" ? "" : `${file}: `}${message}`);
};

/** Ctrl-C ends the command, not the replay. */
const followed = async (pool: pg.Pool, replayId: string, isQuiet: boolean): Promise<Replay> => {
  const progress = openProgress("records", isQuiet);
  const leaving = new AbortController();
  const leave = (): void => leaving.abort();
  process.once("SIGINT", leave);
  try {
    return await awaitReplay(pool, replayId, {
      stalledMs: STALLED_MS,
      signal: leaving.signal,
      onProgress: (replay) => {
        const { done, total } = progressOf(replay);
        if (replay.ranges !== null) progress.at(done, total);
      },
    });
  } catch (error) {
    if (!leaving.signal.aborted && !(error instanceof ReplayStalled)) throw error;
    const what = leaving.signal.aborted ? "the replay goes on without this terminal" : (error as Error).message;
    throw new Error(
      `${what}; to see how it goes: tributary replay --follow ${replayId}; to end it: tributary replay ` +
        `--cancel ${replayId}`,
    );
  } finally {
    process.off("SIGINT", leave);
    progress.done();
  }
};

const follow = async (pool: pg.Pool, replayId: string, { json = false }: ReplayOptions): Promise<void> => {
  if ((await readReplay(pool, replayId)) === undefined)
    throw new UsageError(`there is no replay ${replayId}; see: tributary replay --list`);
  finish(await followed(pool, replayId, json), json);
};

const finish = (replay: Replay, json: boolean, verification?: object): void => {
  if (json) printJson({ ...reportOf(replay), ...verification });
  else showReport(replay);
  if (replay.state !== "done" || replay.errors.length > 0) process.exitCode = 1;
};

const list = async (pool: pg.Pool, json: boolean | undefined): Promise<void> => {
  const found = await listReplays(pool, 20);
  if (json) return printJson({ data: found.map(reportOf) });
  print(
    table(
      ["replay", "state", "from", "to", "records", "written again", "by"],
      found.map((one) => {
        const { from, to, events_requeued } = reportOf(one);
        return [
          one.replay_id,
          one.state,
          from.slice(0, 19),
          to?.slice(0, 19) ?? null,
          progressOf(one).total,
          events_requeued,
          one.actor,
        ];
      }),
    ),
  );
};

const cancel = async (pool: pg.Pool, replayId: string): Promise<void> => {
  if ((await readReplay(pool, replayId)) === undefined)
    throw new UsageError(`there is no replay ${replayId}; see: tributary replay --list`);
  if (!(await cancelReplay(pool, replayId)))
    throw new CommandRefused(`${replayId} has ended already; see: tributary replay --list`);
  tell(`${replayId} is cancelled; what it has written stays, for it was there before`);
};

/** Rollups are counted from rows, so they come last. */
const rollupsComputed = async (pool: pg.Pool): Promise<void> => {
  if (!(await untilRollupsComputed(pool, ROLLUPS_MS)))
    throw new Error("rollups still wait after ten minutes: tributary hash says when they are done");
};

/**
 * Requests the replay and follows it to its end. With --verify it compares what was there before
 * with what is there afterwards.
 */
const carryOut = async (pool: pg.Pool, wanted: WantedReplay, options: ReplayOptions): Promise<void> => {
  const json = options.json ?? false;
  if (options.verify) await rollupsComputed(pool);
  const before = options.verify ? await hashNow() : undefined;
  const { replay_id, isJoined } = await requestReplay(pool, wanted);
  tell(isJoined ? `joined ${replay_id}, which covers this window` : `${replay_id} is asked for`);
  const ended = await followed(pool, replay_id, json);
  if (before === undefined) return finish(ended, json);
  await rollupsComputed(pool);
  const after = await hashNow();
  const tables = compareHours(before.hours, after.hours);
  const changed = tables.filter(isChanged).map((one) => one.table);
  finish(ended, json, { before: before.hash, after: after.hash, changed, tables: tables.map(shownTable) });
  if (tables.some(({ hours }) => hours.fewer.length > 0)) process.exitCode = 1;
  if (json) return;
  print(`state before ${before.hash}\nstate after  ${after.hash}`);
  if (changed.length === 0) return print("nothing has changed: every row was there");
  print(
    table(
      ["table", "rows before", "rows after", "hours as before", "with more rows", "with others", "with fewer"],
      tables.map(({ table: name, rows_before, rows, hours: { same, more, changed: others, fewer } }) => {
        return [name, rows_before, rows, same, hoursText(more), hoursText(others), hoursText(fewer)];
      }),
    ),
  );
  print("more: rows came back, or came meanwhile; others: something changed them, or a newer version came back");
};

const isChanged = ({ hours: { more, changed, fewer } }: ReplayedTable): boolean =>
  more.length + changed.length + fewer.length > 0;

const hourText = (hour: number | null): string =>
  hour === null ? "all" : `${new Date(hour).toISOString().slice(0, 13)}Z`;
/** The first and the last hour are enough to see whether it is the window, or this very hour. */
const hoursText = (hours: readonly (number | null)[]): string => {
  const all = hours.map(hourText).toSorted();
  if (all.length < 2) return all[0] ?? "-";
  return `${all.length}: ${all[0]} to ${all.at(-1)}`;
};

const shownTable = ({ hours, ...one }: ReplayedTable) => ({
  ...one,
  hours: {
    same: hours.same,
    more: hours.more.map(hourText),
    changed: hours.changed.map(hourText),
    fewer: hours.fewer.map(hourText),
  },
});

const replay = (options: ReplayOptions): Promise<void> =>
  withPool(async (pool) => {
    if (options.list) return list(pool, options.json);
    if (options.cancel !== undefined) return cancel(pool, options.cancel);
    if (options.follow !== undefined) return follow(pool, options.follow, options);
    const now = Date.now();
    const window = windowOf(options, now);
    const sinks = sinksOf(options.sink);
    const plan = await withAdmin((admin) => planReplay({ pool, admin, topics: topicSettings }, window, sinks, now));
    const { segments, ...shown } = plan;
    if (options.json && !options.yes) return printJson({ ...shown, dry_run: true, files: segments.map(placeOf) });
    if (!options.json) showPlan(plan, await openReplays(pool));
    if (!options.yes) return tell("nothing was written; add --yes to do it");
    await carryOut(pool, { actor: actorOf(options.actor), ...window, sinks: sinks.map(({ name }) => name) }, options);
  });

export const replayCommands = (program: Command): void => {
  program
    .command("replay")
    .description(
      "writes a window of the log to the stores again: lost rows come back, nothing is computed again; " +
        "shows what it would read, does it with --yes",
    )
    .option("--hours <n>", "the last hours, by the time at which the log took the records")
    .option("--from <time>", "as 2026-11-21T14:00Z or -2h")
    .option("--to <time>", "where it ends; without it: now")
    .option(
      "--sink <names>",
      `only these, by comma, of: ${replayableSinks(pipeline)
        .map(({ name }) => name)
        .join(", ")}`,
    )
    .option("--yes", "do it")
    .option("--verify", "compare what was there before, hour by hour (waits for rollups; exit 1 if rows are missing)")
    .option("--actor <e-mail>", "who does it, for the audit, beside the user of this machine")
    .option("--follow <replay>", "see how one goes")
    .option("--cancel <replay>", "end one")
    .option("--list", "the last twenty")
    .option("--json", "as JSON")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary replay --hours 6\n  $ tributary replay --hours 6 --yes --verify\n  $ " +
        "tributary replay --from 2026-11-20T06:00Z --to 2026-11-21T06:00Z --sink analytics --yes\n  $ " +
        "tributary replay --list\n",
    )
    .action(replay);
};
