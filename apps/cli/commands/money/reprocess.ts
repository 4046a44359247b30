// `tributary reprocess`: computes a window again with today's code and reference data, shows the
// difference, and writes it as decisions with --yes.

import { randomUUID } from "node:crypto";
import { userInfo } from "node:os";
import type { Command } from "commander";
import { CommandRefused, UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, tell } from "../../../../infra/runtime/output.ts";
import { actorOf, resumeOperation } from "../../../../modules/base/operations/operations.ts";
import { type Difference, differenceOf } from "../../../../modules/money/reprocess/difference.ts";
import {
  type ReprocessSettings,
  type ReprocessStage,
  stages,
  TooMuch,
} from "../../../../modules/money/reprocess/ports.ts";
import {
  applyDifference,
  auditOf,
  refuseClosedMonths,
  saidOf,
  windowText,
} from "../../../../modules/money/reprocess/running/apply.ts";
import { type OpenReprocess, openReprocessing } from "../../../../modules/money/reprocess/running/open.ts";
import type { WriteResult } from "../../../../modules/money/reprocess/write.ts";
import type { UnixMs } from "../../../../stream/flow.ts";
import { topics } from "../../../../topics.ts";
import { addresses, reprocessing } from "../../config.ts";
import { kafkaOf } from "../../connections.ts";
import { momentOf } from "../../moments.ts";
import { clientOf, withPool } from "../../pool.ts";
import { openProgress } from "../../progress.ts";
import { consequenceOf, costText, differenceJson, differenceText } from "./reprocess-print.ts";

interface ReprocessOptions {
  readonly from: string;
  readonly to?: string;
  readonly stage: string;
  readonly client?: string;
  readonly reason?: string;
  readonly overrideDecisions?: boolean;
  readonly allowClosedMonths?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}

/** With this many changes a step is announced, because it takes a while without any progress. */
const MANY = 1_000;
const COMPUTED = {
  lines: "orders are settled again",
  money: "decisions are settled and committed in the shadow",
} as const;

const windowOf = (options: ReprocessOptions, now: UnixMs): { readonly from: UnixMs; readonly to: UnixMs } => {
  const from = momentOf("--from", options.from, now);
  const to = options.to === undefined ? now : momentOf("--to", options.to, now);
  if (from >= to)
    throw new UsageError(
      `--from must lie before --to: ${new Date(from).toISOString()} and ${new Date(to).toISOString()}`,
    );
  return { from, to };
};
const stageOf = (text: string): ReprocessStage => {
  const stage = stages.find((name) => name === text);
  if (stage === undefined) throw new UsageError(`--stage: ${text} is none of ${stages.join(", ")}`);
  return stage;
};
const installation = () => ({
  ...{ ...addresses(), ...reprocessing(), kafka: kafkaOf() },
  log: { info: () => undefined, warn: (event: string) => tell(event) },
});

const reprocess = (options: ReprocessOptions): Promise<void> =>
  withPool(async (pool) => {
    const now = Date.now();
    const window = windowOf(options, now);
    const client = options.client === undefined ? null : await clientOf(pool, options.client);
    const settings: ReprocessSettings = {
      ...window,
      stage: stageOf(options.stage),
      clientId: client?.client_id ?? null,
      overridesDecisions: options.overrideDecisions === true,
      actor: `operator:${userInfo().username}`,
      reason: options.reason ?? `reprocessed from ${options.stage}, ${windowText(window)}`,
    };
    const progress = (unit: string) => openProgress(unit, options.json);
    const opened = await openReprocessing(pool, installation(), { now, needed: window.from, progress });
    try {
      const started = performance.now();
      const difference = await differenceOf(opened.ports, settings, {
        onCost: (cost) => {
          if (!options.json) tell(costText(cost));
        },
        onStep: (step, count) => {
          if (!options.json && count >= MANY && (step === "lines" || step === "money"))
            tell(`${count} ${COMPUTED[step]}`);
        },
      });
      const seconds = (performance.now() - started) / 1_000;
      const speed = Math.round(difference.events.read / Math.max(seconds, 0.001));
      if (!options.json) {
        print(differenceText(difference));
        tell(`\n${seconds.toFixed(1)} s, ${speed} events/s`);
      }
      const written =
        options.yes && difference.changes.length > 0 ? await write(opened, settings, options, difference) : null;
      if (options.json)
        printJson({ ...saidOf(settings), seconds, events_per_second: speed, ...differenceJson(difference), written });
      if (!options.yes && difference.changes.length > 0)
        tell(`nothing was written; --yes writes ${consequenceOf(difference)}`);
    } catch (error) {
      throw error instanceof TooMuch ? new CommandRefused(error.message) : error;
    } finally {
      await opened.close();
    }
  });

/** After a crash the command is run again. */
const write = async (
  opened: OpenReprocess,
  settings: ReprocessSettings,
  options: ReprocessOptions,
  difference: Difference,
): Promise<WriteResult> => {
  const [id, actor] = [`op_${randomUUID()}`, actorOf()];
  const { produce, ports } = opened;
  const progress = openProgress("decisions", options.json);
  try {
    refuseClosedMonths(difference, options.allowClosedMonths === true);
    const written = await applyDifference(opened, difference, { settings, actor, id, onProgress: progress.at });
    progress.done();
    if (!options.json) print(writtenText(difference, written));
    return written;
  } catch (error) {
    await resumeOperation({ wire: ports.wire, produce }, id, auditOf(settings, actor)).end(
      error instanceof CommandRefused ? "refused" : "failed",
      { error: (error as Error).message },
    );
    throw error;
  }
};

const writtenText = (difference: Difference, { applied, overtaken, waiting }: WriteResult): string => {
  const parts = [`\nwrote ${consequenceOf(difference)}`, `applied: ${applied}`];
  if (overtaken > 0)
    parts.push(
      "overtaken by something else that was said about the same sale, so they changed nothing: " +
        `${overtaken}; run it again to see`,
    );
  if (waiting > 0)
    parts.push(
      `not applied yet: ${waiting}; they are in the topic ${topics.claims.name}, and settle will: tributary lag`,
    );
  return parts.join("\n");
};

export const reprocessCommands = (program: Command): void => {
  program
    .command("reprocess")
    .description("computes a window with today's code and reference data and shows what differs; writes it with --yes")
    .requiredOption("--from <time>", "the first receipt: 2026-11-21T14:05Z, or -2h")
    .option("--to <time>", "the first receipt after the window (default: now)")
    .option(
      "--stage <stage>",
      `from which stage on: ${stages.join(", ")}; commission: who is credited stays`,
      "attribute",
    )
    .option("--client <slug or id>", "one client alone")
    .option("--override-decisions", "also replaces what people have decided")
    .option("--allow-closed-months", "also moves money of months that are closed (after day 7 of the next one)")
    .option("--reason <text>", "why, in words; kept with every decision and in the audit")
    .option("--yes", "write it: one decision for each sale and event that differs")
    .option("--json", "as JSON")
    .addHelpText(
      "before",
      [
        "Examples:",
        "  $ tributary reprocess --from 2026-11-21T14:00Z --to 2026-11-21T16:00Z --client casa-verde",
        "  $ tributary reprocess --from -6h --reason 'rule 51 was wrong' --yes",
        "  $ tributary reprocess --from -30d --stage commission --client casa-verde",
        "",
      ].join("\n"),
    )
    .action(reprocess);
};
