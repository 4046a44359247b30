// `tributary restore`: brings a window back from the archive. Verifies it first, and restores it
// with --yes.
import type { Command } from "commander";
import type pg from "pg";
import { openRegistry } from "../../../../infra/avro/registry.ts";
import { openWire } from "../../../../infra/avro/wire.ts";
import type { Objects } from "../../../../infra/objects/objects.ts";
import { withLockOrThrow } from "../../../../infra/postgres/advisory-lock.ts";
import { CommandRefused, UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, tell } from "../../../../infra/runtime/output.ts";
import {
  actorOf,
  beginOperation,
  type OperationPlan,
  type OperationPorts,
  type RunningOperation,
  resumeOperation,
} from "../../../../modules/base/operations/operations.ts";
import { archiving } from "../../../../modules/log/groups/archive-group.ts";
import { openSuppressions, withholdsOf } from "../../../../modules/privacy/suppressions.ts";
import {
  planRestore,
  type RestorePlan,
  type RestoreState,
  restore,
  restoreState,
  type Window,
} from "../../../../sinks/archive/restore.ts";
import { withheldBy } from "../../../../sinks/archive/withheld-filter.ts";
import { archivedSchema } from "../../../../sinks/archive/write.ts";
import { topics } from "../../../../topics.ts";
import { addresses } from "../../config.ts";
import { kafkaOf, withObjects } from "../../connections.ts";
import { momentOf } from "../../moments.ts";
import { clientOf, withPool } from "../../pool.ts";
import { openProgress } from "../../progress.ts";
import { rangeLines } from "./offset-ranges.ts";

interface RestoreOptions {
  readonly from: string;
  readonly to: string;
  readonly client?: string;
  readonly yes?: boolean;
  readonly dryRun?: boolean;
  readonly again?: boolean;
  readonly actor?: string;
  readonly reason?: string;
  readonly json?: boolean;
}

const tellPlan = (plan: RestorePlan, { from, to }: Window): void => {
  print(
    `${new Date(from).toISOString()} to ${new Date(to).toISOString()}: ${plan.files} files, ` +
      `${plan.events} events, ${plan.bytes} bytes`,
  );
  if (plan.missing_hours.length > 0)
    print(`hours without a file (nothing was received, or they are lost): ${plan.missing_hours.join(", ")}`);
  for (const line of rangeLines("gap", plan.gaps)) print(line);
  for (const { message } of plan.damaged) print(message);
};

/** Counts the events of the window that only the log holds. */
const notArchived = async ({ to }: Window): Promise<number> => {
  const admin = await kafkaOf().admin();
  try {
    const [ends, committed] = [
      await admin.offsetsAt(archiving.topic, to),
      await admin.committed(archiving.group, archiving.topic),
    ];
    return [...ends].reduce((sum, [partition, end]) => sum + Math.max(0, end - (committed.get(partition) ?? 0)), 0);
  } finally {
    await admin.close();
  }
};

const LOCK = "tributary.restore";
/** A window that was brought back more recently than this needs --again. */
const FRESH_MS = 7 * 86_400_000;

/** Throws UsageError for an empty window or an unknown client. */
const windowOf = async (pool: pg.Pool, options: RestoreOptions, now: number): Promise<Window> => {
  const client = options.client === undefined ? undefined : await clientOf(pool, options.client);
  const window: Window = {
    topic: archiving.topic,
    from: momentOf("--from", options.from, now),
    to: momentOf("--to", options.to, now),
    ...(client !== undefined && { clientId: client.client_id }),
  };
  if (window.from >= window.to) throw new UsageError("--from must lie before --to");
  return window;
};

/** Throws CommandRefused unless the archive holds the whole window undamaged. */
const checkWhole = async (window: Window, plan: RestorePlan): Promise<void> => {
  const recent = await notArchived(window);
  if (recent > 0)
    throw new CommandRefused(
      `${recent} events of the window are not archived yet: the log holds them. Give an earlier --to, ` +
        "or come back in a minute",
    );
  if (plan.damaged.length > 0)
    throw new CommandRefused(
      `${plan.damaged.length} files are damaged and nothing is brought back; narrow the window, or put ` +
        "good copies in their place",
    );
};

const restoreWindow = (options: RestoreOptions): Promise<void> =>
  withObjects((objects) =>
    withPool(async (pool) => {
      const now = Date.now();
      const window = await windowOf(pool, options, now);
      const checking = openProgress("files verified", options.json);
      const plan = await planRestore(objects, window, checking.at);
      checking.done();
      const before = await restoreState(objects, window);
      if (!options.json) tellPlan(plan, window);
      await checkWhole(window, plan);
      const isFresh = before?.finished_at != null && now - before.finished_at < FRESH_MS;
      if (isFresh && !options.again) {
        tell(
          `this window was brought back at ${new Date(before.finished_at).toISOString()}: ${before.events} ` +
            "events; to do it once more: --again",
        );
        if (options.json) printJson({ plan, restored: before });
        return;
      }
      if (!options.yes || options.dryRun) {
        if (options.json) printJson({ plan, restored: null });
        return tell("nothing was brought back; add --yes to do it");
      }
      const isGoingOn = before !== null && before.finished_at === null;
      const busy = () => new CommandRefused("another restore is under way; wait for it: tributary tail operations");
      const state = await withLockOrThrow(pool, LOCK, busy, () =>
        bringBack({ objects, pool, window, plan, before: isGoingOn ? before : null }, options),
      );
      if (options.json) return printJson({ plan, restored: state });
      const leftOut = state.suppressed > 0 ? `; ${state.suppressed} of erased subjects were left out` : "";
      print(`${state.events} events are in ${topics.eventsRestored.name}${leftOut} (${state.operation_id})`);
    }),
  );

interface WindowRestore {
  readonly objects: Objects;
  readonly pool: pg.Pool;
  readonly window: Window;
  readonly plan: RestorePlan;
  /** The progress of an interrupted restore of this window. */
  readonly before: RestoreState | null;
}

/** The window in options that mean the same later, as relative times would not. */
const windowText = ({ from, to, clientId }: Window) => ({
  from: new Date(from).toISOString(),
  to: new Date(to).toISOString(),
  ofClient: clientId === undefined ? "" : ` --client ${clientId}`,
});

const auditOf = (window: Window, { actor, reason }: RestoreOptions): OperationPlan => {
  const { from, to, ofClient } = windowText(window);
  const target = `${from}/${to}${ofClient}`;
  return { kind: "restore", actor: actorOf(actor), target, ...(reason !== undefined && { reason }) };
};

/** Begins the operation, or continues that of an interrupted restore. Returns where to start. */
const begin = async (
  ports: OperationPorts,
  { plan, before }: WindowRestore,
  audit: OperationPlan,
): Promise<{ readonly operation: RunningOperation; readonly state: Parameters<typeof restore>[2] }> => {
  if (before !== null) return { operation: resumeOperation(ports, before.operation_id, audit), state: before };
  const operation = await beginOperation(ports, audit, { ...plan, damaged: 0 });
  return { operation, state: { operation_id: operation.id, done: "", files: 0, events: 0, suppressed: 0 } };
};

const bringBack = async (wanted: WindowRestore, options: RestoreOptions): Promise<RestoreState> => {
  const { objects, pool, window, before } = wanted;
  const { registryUrl, topicPrefix } = addresses();
  const registry = openRegistry({ url: registryUrl, topicPrefix });
  const schemaOf = async (id: number) => (await registry.schemaOf(id)) ?? archivedSchema(objects, id);
  const producer = kafkaOf().producer();
  const progress = openProgress("files", options.json);
  const suppressions = openSuppressions(pool);
  try {
    const wire = await openWire([topics.operations, topics.eventsRaw], { idOf: registry.idOf, schemaOf });
    const { from, to, ofClient } = windowText(window);
    tell(`should this be interrupted, it goes on with: tributary restore --from ${from} --to ${to}${ofClient} --yes`);
    const audit = auditOf(window, options);
    if (before !== null)
      tell(`going on behind ${before.done === "" ? "the beginning" : before.done}, ${before.events} events are there`);
    const { operation, state } = await begin({ wire, produce: producer.send }, wanted, audit);
    try {
      const restored = await restore(objects, window, state, {
        into: topics.eventsRestored.name,
        produce: producer.send,
        withheld: withheldBy(objects, wire, topics.eventsRaw, () => withholdsOf(suppressions)),
        onFile: progress.at,
      });
      await operation.end("succeeded", restored);
      return restored;
    } catch (error) {
      await operation.end("failed", { message: (error as Error).message });
      throw new Error(`${(error as Error).message}; the command above goes on where it stopped`);
    }
  } finally {
    progress.done();
    await producer.close();
    await suppressions.close();
  }
};

export const restoreCommand = (program: Command): void => {
  program
    .command("restore")
    .description("brings a window that the log no longer holds back from the archive, into the topic events.restored")
    .requiredOption("--from <time>", "first moment of appending, e.g. 2026-10-01T00:00Z or -30d")
    .requiredOption("--to <time>", "the moment behind the last")
    .option("--client <slug or id>", "of one client alone")
    .option("--yes", "does it; without it the files are only verified and counted")
    .option("--dry-run", "only verifies and counts, whatever else is given")
    .option("--again", "also when the same window was brought back in the last 7 days")
    .option("--actor <email>", "who does it, for the audit, beside the user of this machine")
    .option("--reason <text>", "why, for the audit")
    .option("--json", "as JSON")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary restore --from 2026-10-01T00:00Z --to 2026-10-02T00:00Z\n  $ tributary " +
        "restore --from -30d --to -29d --client aurora-music --yes\n",
    )
    .action(restoreWindow);
};
