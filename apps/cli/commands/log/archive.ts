// What the archive holds, whether it is whole, and bringing a window of it back.

import type { Command } from "commander";
import { openRegistry } from "../../../../infra/avro/registry.ts";
import { openWire } from "../../../../infra/avro/wire.ts";
import type { Objects } from "../../../../infra/objects/objects.ts";
import { openObjects } from "../../../../infra/objects/open.ts";
import { withLockOrThrow } from "../../../../infra/postgres/advisory-lock.ts";
import { CommandRefused, UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { actorOf, beginOperation, resumeOperation } from "../../../../modules/base/operations/operations.ts";
import { archiving } from "../../../../modules/log/groups/archive-group.ts";
import { openSuppressions, type Suppressions, withholdsOf } from "../../../../modules/privacy/suppressions.ts";
import { filesOf } from "../../../../sinks/archive/archive-reads.ts";
import { checkArchive } from "../../../../sinks/archive/check.ts";
import { type ArchiveFile, hourText } from "../../../../sinks/archive/names.ts";
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
import { addresses, objectStoreUrl } from "../../config.ts";
import { kafkaOf } from "../../connections.ts";
import { momentOf } from "../../moments.ts";
import { clientOf, withPool } from "../../pool.ts";
import { openProgress } from "../../progress.ts";
import { retentionCommand } from "./archive-retention.ts";

const withObjects = async <T>(work: (objects: Objects) => Promise<T>): Promise<T> => {
  const objects = openObjects(objectStoreUrl());
  try {
    return await work(objects);
  } finally {
    await objects.close();
  }
};

interface Row {
  readonly hour: string;
  readonly files: number;
  readonly events: number;
  readonly bytes: number;
}
const byHour = (files: readonly ArchiveFile[]): readonly Row[] => {
  const rows = new Map<string, Row>();
  for (const { hour, first, last, bytes } of files) {
    const name = hourText(hour);
    const sum = rows.get(name) ?? { hour: name, files: 0, events: 0, bytes: 0 };
    rows.set(name, {
      hour: name,
      files: sum.files + 1,
      events: sum.events + last - first + 1,
      bytes: sum.bytes + bytes,
    });
  }
  return [...rows.values()];
};

const stretches = (
  what: string,
  list: readonly { readonly partition: number; readonly from: number; readonly until: number; readonly hour: string }[],
) =>
  list.map(
    ({ partition, from, until, hour }) =>
      `${what}: ${archiving.topic}/${partition} from ${from} to ${until - 1}, at ${hour}`,
  );

interface ShowOptions {
  readonly from?: string;
  readonly to?: string;
  readonly verify?: boolean;
  readonly json?: boolean;
}
const show = ({ from, to, verify = false, json }: ShowOptions): Promise<void> =>
  withObjects(async (objects) => {
    const now = Date.now();
    const span = {
      ...(from !== undefined && { from: momentOf("--from", from, now) }),
      ...(to !== undefined && { to: momentOf("--to", to, now) }),
    };
    const files: ArchiveFile[] = [];
    for await (const file of filesOf(objects, archiving.topic, span)) files.push(file);
    const progress = openProgress("files", json);
    const admin = await kafkaOf().admin();
    const checked = await checkArchive(objects, admin, archiving, {
      ...span,
      verify,
      onFile: (done) => progress.at(done, files.length),
    }).finally(() => admin.close());
    if (verify) progress.done();
    const { gaps, overlaps, damaged } = checked;
    const hours = byHour(files);
    if (json) printJson({ hours, gaps, overlaps, damaged, verified: verify });
    else if (hours.length === 0)
      print("nothing is archived yet; a file is closed about a minute after its first event");
    else {
      print(
        table(
          ["hour (UTC)", "files", "events", "bytes"],
          hours.map((row) => [row.hour, row.files, row.events, row.bytes]),
        ),
      );
      print(
        `${files.length} files, ${checked.events} events, ${checked.bytes} ` +
          `bytes${verify ? ", every checksum compared" : ""}`,
      );
    }
    const problems = [
      ...stretches("gap", gaps),
      ...stretches("overlap", overlaps),
      ...damaged.map(({ message, key }) => `damaged: ${key}: ${message}`),
    ];
    for (const problem of problems) tell(problem);
    if (problems.length > 0) process.exitCode = 1;
    else if (!json && hours.length > 0)
      tell(`no gap, no overlap${verify ? ", no damage" : "; to compare checksums too: tributary archive --verify"}`);
  });

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
  for (const line of stretches("gap", plan.gaps)) print(line);
  for (const { message } of plan.damaged) print(message);
};

/** Events of the window that only the log holds. */
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

const restoreWindow = (options: RestoreOptions): Promise<void> =>
  withObjects((objects) =>
    withPool(async (pool) => {
      const now = Date.now();
      const client = options.client === undefined ? undefined : await clientOf(pool, options.client);
      const window: Window = {
        topic: archiving.topic,
        from: momentOf("--from", options.from, now),
        to: momentOf("--to", options.to, now),
        ...(client !== undefined && { clientId: client.client_id }),
      };
      if (window.from >= window.to) throw new UsageError("--from must lie before --to");
      const checking = openProgress("files verified", options.json);
      const plan = await planRestore(objects, window, checking.at);
      checking.done();
      const before = await restoreState(objects, window);
      if (!options.json) tellPlan(plan, window);
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
      const isFresh = before?.finished_at != null && now - before.finished_at < 7 * 86_400_000;
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
      const suppressions = openSuppressions(pool);
      const busy = () => new CommandRefused("another restore is under way; wait for it: tributary tail operations");
      const state = await withLockOrThrow(pool, LOCK, busy, () =>
        bringBack(objects, window, plan, isGoingOn ? before : null, options, suppressions),
      ).finally(() => suppressions.close());
      if (options.json) return printJson({ plan, restored: state });
      const leftOut = state.suppressed > 0 ? `; ${state.suppressed} of erased subjects were left out` : "";
      print(`${state.events} events are in ${topics.eventsRestored.name}${leftOut} (${state.operation_id})`);
    }),
  );

const bringBack = async (
  objects: Objects,
  window: Window,
  plan: RestorePlan,
  before: RestoreState | null,
  options: RestoreOptions,
  suppressions: Suppressions,
): Promise<RestoreState> => {
  const { registryUrl, topicPrefix } = addresses();
  const registry = openRegistry({ url: registryUrl, topicPrefix });
  const schemaOf = async (id: number) => (await registry.schemaOf(id)) ?? archivedSchema(objects, id);
  const wire = await openWire([topics.operations, topics.eventsRaw], { idOf: registry.idOf, schemaOf });
  const producer = kafkaOf().producer();
  const progress = openProgress("files", options.json);
  const ports = { wire, produce: producer.send };
  // A time ago is another time when it is asked again.
  const { from, to } = { from: new Date(window.from).toISOString(), to: new Date(window.to).toISOString() };
  const ofClient = window.clientId === undefined ? "" : ` --client ${window.clientId}`;
  tell(`should this be interrupted, it goes on with: tributary restore --from ${from} --to ${to}${ofClient} --yes`);
  const target = `${from}/${to}${ofClient}`;
  const audit = {
    kind: "restore" as const,
    actor: actorOf(options.actor),
    target,
    ...(options.reason !== undefined && { reason: options.reason }),
  };
  if (before !== null)
    tell(`going on behind ${before.done === "" ? "the beginning" : before.done}, ${before.events} events are there`);
  try {
    const operation =
      before === null
        ? await beginOperation(ports, audit, { ...plan, damaged: 0 })
        : resumeOperation(ports, before.operation_id, audit);
    const begun = before ?? { operation_id: operation.id, done: "", files: 0, events: 0, suppressed: 0 };
    try {
      const state = await restore(objects, window, begun, {
        into: topics.eventsRestored.name,
        produce: producer.send,
        withheld: withheldBy(objects, wire, topics.eventsRaw, () => withholdsOf(suppressions)),
        onFile: progress.at,
      });
      await operation.end("succeeded", state);
      return state;
    } catch (error) {
      await operation.end("failed", { message: (error as Error).message });
      throw new Error(`${(error as Error).message}; the command above goes on where it stopped`);
    }
  } finally {
    progress.done();
    await producer.close();
  }
};

export const archiveCommands = (program: Command): void => {
  const archive = program.command("archive");
  retentionCommand(archive);
  archive
    .description("what the archive holds by hour, and whether its files cover the log without gap or overlap")
    .option("--from <time>", "hours from this time on, e.g. 2026-11-21T14:00Z or -48h")
    .option("--to <time>", "hours that begin before this time")
    .option("--verify", "reads every file and compares its checksum")
    .option("--json", "as JSON")
    .addHelpText("before", "Examples:\n  $ tributary archive\n  $ tributary archive --from -48h --verify\n")
    .action(show);
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
