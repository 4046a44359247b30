// `tributary rewind`: sets a stage or sink back in the log. Shows the plan first, and carries it
// out with --yes.
import type { Command } from "commander";
import { CommandRefused } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { actorOf } from "../../../../modules/base/operations/operations.ts";
import { type RewindRequest, rewindGroup } from "../../../../modules/log/rewind/rewind.ts";
import { eventsOf, movesOf } from "../../../../modules/log/rewind/rewind-plan.ts";
import {
  type FoundGroup,
  type RewindSources,
  refuseBehind,
  rewindPorts,
} from "../../../../modules/log/rewind/rewind-ports.ts";
import { previewRewind, type RewindPreview } from "../../../../modules/log/rewind/rewind-preview.ts";
import { differingTables } from "../../../../modules/running/state-hash/state-hash.ts";
import { untilSettled } from "../../../../modules/running/state-hash/until-settled.ts";
import { pipeline } from "../../../../topology.ts";
import { hostOf, withRewinding } from "../../connections.ts";
import { rewindToOf } from "../../moments.ts";
import { openProgress } from "../../progress.ts";
import { hashNow } from "../running/hash.ts";

interface RewindOptions {
  readonly to: string;
  readonly partial?: boolean;
  readonly reason?: string;
  readonly yes?: boolean;
  readonly dryRun?: boolean;
  readonly verify?: boolean;
  readonly json?: boolean;
}

const SETTLED_WITHIN_MS = 120_000;

const showPlan = ({ group, nodes }: FoundGroup, { plan, rewrites }: RewindPreview): void => {
  print(`${group} reads ${plan.topic} and hosts ${nodes.join(", ")}`);
  print(
    table(
      ["partition", "committed", "target", "events", "log begins at"],
      plan.partitions.map(({ partition, committed, target, low }) => [
        partition,
        committed,
        target,
        committed - target,
        low,
      ]),
    ),
  );
  print(`${eventsOf(plan)} events are read again, in ${movesOf(plan).length} partitions`);
  for (const sentence of rewrites) print(sentence);
};

/** Shows the plan. Throws CommandRefused when it must not be carried out. */
const preview = async (
  rewinding: RewindSources,
  request: RewindRequest & FoundGroup,
  options: RewindOptions,
  isDry: boolean,
) => {
  const { group, nodes } = request;
  const seen = await previewRewind(rewindPorts(rewinding), pipeline, request);
  const { plan, gaps, problem, rewrites } = seen;
  if (options.json && isDry) printJson({ ...plan, group, nodes, events: eventsOf(plan), rewrites, gaps, problem });
  else if (!options.json) showPlan(request, seen);
  if (problem !== null) throw new CommandRefused(problem);
};

/** Rewinds. With --verify it compares what all tables hold before and after. */
const carryOut = async (rewinding: RewindSources, request: RewindRequest, options: RewindOptions): Promise<void> => {
  const progress = openProgress("events", options.json);
  // A command that ends here leaves the group held and unread, so it prints how to continue.
  process.once("SIGINT", () => {
    tell(`\nended here; to go on: the same command again. To give it up: tributary groups release ${request.group}`);
    process.exit(130);
  });
  const settledHash = async () => {
    const isSettled = await untilSettled(rewinding, SETTLED_WITHIN_MS);
    return { isSettled, state: await hashNow() };
  };
  const before = options.verify ? await settledHash() : undefined;
  const report = await rewindGroup(
    { ...rewindPorts(rewinding), onStep: progress.note, onProgress: progress.at },
    request,
  );
  progress.done();
  const after = options.verify ? await settledHash() : undefined;
  const differing = before === undefined || after === undefined ? [] : differingTables(before.state, after.state);
  const hashes = { hash_before: before?.state.hash, hash_after: after?.state.hash, differing };
  if (options.json) printJson({ ...report, ...(after !== undefined && hashes) });
  else {
    const took = `${report.seconds.toFixed(1)} s (${report.operation})`;
    print(`${request.group} has read ${report.events} events again in ${took}`);
    if (after !== undefined) print(`state before ${hashes.hash_before}\nstate after  ${hashes.hash_after}`);
  }
  if (differing.length === 0) return;
  tell(`${differing.join(", ")} differ${after?.isSettled ? "" : "; events were still coming, so that proves nothing"}`);
  process.exitCode = 1;
};

const rewind = (name: string, options: RewindOptions): Promise<void> =>
  withRewinding(async (rewinding) => {
    const to = rewindToOf(options.to, Date.now());
    const hosting = await hostOf(rewinding, name);
    refuseBehind(name, hosting);
    const request = {
      ...hosting,
      to,
      text: options.to,
      actor: actorOf(),
      ...(options.reason !== undefined && { reason: options.reason }),
      isPartial: options.partial === true,
    };
    const isDry = options.yes !== true || options.dryRun === true;
    const open = await rewindPorts(rewinding).holds.of(hosting.group);
    // A rewind that is open is continued: its plan was shown when it began.
    if (open === null) await preview(rewinding, request, options, isDry);
    else {
      const since = new Date(open.since).toISOString();
      tell(`${open.operation} (${open.kind}) of ${open.actor} is open on ${hosting.group} since ${since}`);
    }
    if (isDry) return tell("nothing was changed; add --yes to do it");
    await carryOut(rewinding, request, options);
  });

export const rewindCommands = (program: Command): void => {
  program
    .command("rewind <stage|sink>")
    .description("sets a stage or sink back in the log, so that it reads again; shows first, does it with --yes")
    .requiredOption(
      "--to <where>",
      "a time (2026-11-21T14:05Z, when the broker got the events), a time ago (-2h, -30m, -1d), offset:N, or earliest",
    )
    .option("--dry-run", "only show what would be done (so it is without --yes)")
    .option("--partial", "go back as far as the log reaches when retention has removed a part of the window")
    .option("--reason <text>", "kept in the audit")
    .option("--verify", "hash what all tables hold before and after; only equal when no events come meanwhile")
    .option("--yes", "do it")
    .option("--json", "as JSON")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary rewind analytics --to -2h\n  $ tributary rewind analytics --to -2h " +
        "--yes\n  $ tributary rewind enrich --to 2026-11-21T14:05Z --reason 'redis was lost' " +
        "--yes\n\nIts workers leave the group, its offsets are set to min(committed, where), read back " +
        "and compared, and the workers join again. A command that is ended\nleaves the group held: run " +
        "it again to go on, or give it up with `tributary groups release`.\n",
    )
    .action(rewind);
};
