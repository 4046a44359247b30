// Sets a stage or sink back in the log, and rebuilds what a stage remembers. Shows first, does it
// with --yes.

import type { Command } from "commander";
import { Redis } from "ioredis";
import type pg from "pg";
import { openRegistry } from "../../../infra/avro/registry.ts";
import { openWire } from "../../../infra/avro/wire.ts";
import { forget, marksOf } from "../../../infra/redis/forget.ts";
import { print, printJson, table, tell } from "../../../infra/runtime/output.ts";
import { Refused, UsageError } from "../../../infra/runtime/refused.ts";
import { HeldElsewhere } from "../../../modules/groups/group-holds.ts";
import { groupsNow } from "../../../modules/groups/group-reads.ts";
import { type RelearnRequest, relearnStage } from "../../../modules/groups/relearn.ts";
import { gapText, planRewind, RewindRefused, type RewindRequest, rewindGroup } from "../../../modules/groups/rewind.ts";
import { eventsOf, movesOf, type RewindPlan } from "../../../modules/groups/rewind-plan.ts";
import { type Found, findGroup, type Rewinding, releaseGroup, rewindPorts } from "../../../modules/groups/rewinding.ts";
import { actorOf, beginOperation, resumeOperation } from "../../../modules/operations/operations.ts";
import { waitingMarks } from "../../../modules/rollups/rollup-marks.ts";
import { differingTables } from "../../../modules/state-hash/state-hash.ts";
import { type AnyStage, writesRows } from "../../../stream/flow.ts";
import { topics } from "../../../topics.ts";
import { pipeline } from "../../../topology.ts";
import { addresses, redisUrl } from "../config.ts";
import { kafkaOf, withPool } from "../connections.ts";
import { rewindToOf } from "../moments.ts";
import { openProgress } from "../progress.ts";
import { hashNow } from "./hash.ts";

interface RewindOptions {
  readonly to: string;
  readonly partial?: boolean;
  readonly reason?: string;
  readonly yes?: boolean;
  readonly dryRun?: boolean;
  readonly verify?: boolean;
  readonly json?: boolean;
}

/** Opens what moving a group needs; what is refused ends the command with 3. */
export const withRewinding = <T>(work: (rewinding: Rewinding) => Promise<T>): Promise<T> =>
  withPool(async (pool: pg.Pool) => {
    const { registryUrl, topicPrefix } = addresses();
    const kafka = kafkaOf();
    const admin = await kafka.admin();
    const producer = kafka.producer();
    try {
      const wire = await openWire([topics.operations], openRegistry({ url: registryUrl, topicPrefix }));
      return await work({ pool, kafka, admin, audit: { wire, produce: producer.send }, topology: pipeline });
    } catch (error) {
      if (error instanceof RewindRefused || error instanceof HeldElsewhere) throw new Refused(error.message);
      throw error;
    } finally {
      await producer.close();
      await admin.close();
    }
  });

const found = async (rewinding: Rewinding, name: string, verb: string): Promise<Found> => {
  const known = pipeline.nodes.flatMap((node) => (node.is === "edge" ? [] : node.name));
  if (!known.includes(name)) throw new UsageError(`${name} is no stage and no sink; there are ${known.join(", ")}`);
  const hosting = await findGroup(rewinding, name);
  const [first] = hosting.nodes;
  if (first !== name && verb === "rewind")
    throw new Refused(
      `${name} is hosted behind ${first} in ${hosting.group}, and fused ones go back together (${hosting.nodes.join(", ")}): tributary rewind ${first} --to ...`,
    );
  return hosting;
};

/** What is written again, one sentence each. */
const rewritten = ({ nodes }: Found): readonly string[] =>
  nodes.flatMap((name) => {
    const node = pipeline.nodes.find((one) => one.name === name);
    if (node === undefined || node.is === "edge") return [];
    if (node.is === "sink")
      return [`${name} writes the same rows again into ${node.into.store} ${node.into.name}, which count once`];
    const inside = nodes
      .map((other) => pipeline.nodes.find((one) => one.name === other))
      .flatMap((one) => (one?.is === "stage" ? [one.from.name] : []));
    const out = Object.values(node.to).flatMap((topic) => (inside.slice(1).includes(topic.name) ? [] : [topic.name]));
    if (node.memory?.driver === "durable")
      return [
        `${name} answers each event with its recorded outcome, decides nothing anew, and writes it again to ${out.join(", ")}`,
      ];
    return out.length === 0 ? [] : [`${name} writes the same events again to ${out.join(", ")}, under the same ids`];
  });

const showPlan = (hosting: Found, plan: RewindPlan): void => {
  print(`${hosting.group} reads ${plan.topic} and hosts ${hosting.nodes.join(", ")}`);
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
  for (const sentence of rewritten(hosting)) print(sentence);
};

const SETTLED_WITHIN_MS = 120_000;
/**
 * Until nothing is under way that the rewind set going: every group has read everything, and every
 * rollup is computed.
 */
const untilSettled = async (rewinding: Rewinding): Promise<boolean> => {
  const end = performance.now() + SETTLED_WITHIN_MS;
  // A copy of the log waits for its next file on purpose, and is no table.
  const tables = pipeline.nodes.flatMap((node) =>
    node.is === "stage" || (node.is === "sink" && writesRows(node)) ? [node.name] : [],
  );
  for (;;) {
    const groups = (await groupsNow(rewinding, Date.now())).filter(({ nodes }) =>
      nodes.some((name) => tables.includes(name)),
    );
    const lag = groups.reduce((sum, group) => sum + group.lag, 0);
    if (lag === 0 && (await waitingMarks(rewinding.pool)).count === 0) return true;
    if (performance.now() > end) return false;
    await new Promise((resolve) => setTimeout(resolve, 1_000));
  }
};

const carryOut = async (rewinding: Rewinding, request: RewindRequest, options: RewindOptions): Promise<void> => {
  const progress = openProgress("events", options.json);
  // Whoever ends the command leaves a group that nobody reads: say how it goes on.
  process.once("SIGINT", () => {
    tell(`\nended here; to go on: the same command again. To give it up: tributary groups release ${request.group}`);
    process.exit(130);
  });
  if (options.verify) await untilSettled(rewinding);
  const before = options.verify ? await hashNow() : undefined;
  const report = await rewindGroup(
    { ...rewindPorts(rewinding), onStep: progress.note, onProgress: progress.at },
    request,
  );
  progress.done();
  const isQuiet = before === undefined || (await untilSettled(rewinding));
  const after = before === undefined ? undefined : await hashNow();
  const differing = before === undefined || after === undefined ? [] : differingTables(before, after);
  if (options.json)
    printJson({
      ...report,
      ...(after !== undefined && { hash_before: before?.hash, hash_after: after.hash, differing }),
    });
  else {
    print(
      `${request.group} has read ${report.events} events again in ${report.seconds.toFixed(1)} s (${report.operation})`,
    );
    if (after !== undefined) print(`state before ${before?.hash}\nstate after  ${after.hash}`);
  }
  if (differing.length > 0) {
    tell(`${differing.join(", ")} differ${isQuiet ? "" : "; events were still coming, so that says nothing"}`);
    process.exitCode = 1;
  }
};

const rewind = (name: string, options: RewindOptions): Promise<void> =>
  withRewinding(async (rewinding) => {
    const to = rewindToOf(options.to, Date.now());
    const hosting = await found(rewinding, name, "rewind");
    const request: RewindRequest = {
      ...hosting,
      to,
      text: options.to,
      actor: actorOf(),
      ...(options.reason !== undefined && { reason: options.reason }),
      isPartial: options.partial === true,
    };
    const isDry = options.yes !== true || options.dryRun === true;
    const ports = rewindPorts(rewinding);
    const open = await ports.holds.of(hosting.group);
    // An open one is gone on with: what it wants was shown when it began.
    if (open === null) {
      const { plan, gaps } = await planRewind(ports, request);
      const problem =
        gaps.length > 0
          ? `retention has removed ${gapText(gaps)}`
          : await ports.forbidden(hosting.group, hosting.topic, movesOf(plan));
      if (options.json && isDry)
        printJson({
          ...plan,
          group: hosting.group,
          nodes: hosting.nodes,
          events: eventsOf(plan),
          rewrites: rewritten(hosting),
          gaps,
          problem,
        });
      else if (!options.json) showPlan(hosting, plan);
      if (problem !== null && isDry)
        throw new Refused(problem + (gaps.length > 0 ? "; --partial goes back as far as the log reaches" : ""));
      if (movesOf(plan).length === 0)
        throw new Refused(`${hosting.group} stands at or before that point: a rewind only goes back, never forward`);
    } else
      tell(
        `${open.operation} (${open.kind}) of ${open.actor} is open on ${hosting.group} since ${new Date(open.since).toISOString()}`,
      );
    if (isDry) return tell("nothing was changed; add --yes to do it");
    await carryOut(rewinding, request, options);
  });

const stageOf = (name: string): AnyStage => {
  const stage = pipeline.nodes.filter((node) => node.is === "stage").find((node) => node.name === name);
  if (stage === undefined) throw new Refused(`${name} is no stage; only stages remember`);
  if (stage.memory === undefined) throw new Refused(`${name} remembers nothing`);
  if (stage.memory.driver === "durable")
    throw new Refused(
      `${name} remembers in Postgres what was decided about money, and that is never thrown away. After a restored backup it reads again from where its memory ends, by itself (docs/runbooks/postgres-restored.md); what was decided wrongly is decided anew by: tributary reprocess --stage ${name}`,
    );
  return stage;
};

const relearn = (name: string, options: { yes?: boolean; json?: boolean; reason?: string }): Promise<void> =>
  withRewinding(async (rewinding) => {
    const stage = stageOf(name);
    const { admin, audit } = rewinding;
    const hosting = await found(rewinding, name, "relearn");
    const { group, topic } = hosting;
    const redis = new Redis(redisUrl(), { lazyConnect: true, maxRetriesPerRequest: 1 });
    redis.on("error", () => undefined);
    const prefix = `${addresses().topicPrefix}memory`;
    try {
      const marks = () => marksOf(redis, prefix, name, topic);
      const [before, rows] = [await marks(), await admin.lag(group, [topic])];
      if (!options.json) {
        print(
          `${name} remembers ${stage.memory!.name} in Redis; it is hosted in ${group} (${hosting.nodes.join(", ")}), which reads ${topic}`,
        );
        print(
          table(
            ["partition", "log begins at", "committed", "remembered up to"],
            rows.map(({ partition, low, committed }) => [partition, low, committed, before.get(partition) ?? null]),
          ),
        );
      }
      if (!options.yes) {
        if (options.json)
          printJson({
            stage: name,
            group,
            topic,
            partitions: rows.map((row) => ({ ...row, mark: before.get(row.partition) ?? null })),
          });
        return tell(
          "nothing was changed; with --yes its memory is emptied and its input read again, and nothing is written meanwhile",
        );
      }
      const progress = openProgress("events", options.json);
      const request: RelearnRequest = {
        stage: name,
        group,
        topic,
        actor: actorOf(),
        ...(options.reason !== undefined && { reason: options.reason }),
      };
      const planned = {
        kind: "relearn" as const,
        actor: request.actor,
        target: `${name} in ${group}`,
        ...(request.reason !== undefined && { reason: request.reason }),
      };
      const { holds, forbidden } = rewindPorts(rewinding);
      const report = await relearnStage(
        {
          admin,
          holds,
          forbidden,
          marks,
          forget: () => forget(redis, prefix, name, () => undefined),
          begin: async (_, detail) => (await beginOperation(audit, planned, detail)).id,
          ended: (operation, _, phase, detail) => resumeOperation(audit, operation, planned).end(phase, detail),
          onStep: progress.note,
          onProgress: progress.at,
        },
        request,
      );
      progress.done();
      if (options.json) printJson(report);
      else
        print(
          `${name} has learnt ${report.events} events again in ${report.seconds.toFixed(1)} s (${report.operation})`,
        );
    } finally {
      redis.disconnect();
    }
  });

/** Ends a hold by hand: for what is not gone on with. */
export const release = (group: string): Promise<void> =>
  withRewinding(async (rewinding) => {
    const name = group.startsWith("tributary.") ? group : `tributary.${group}`;
    const { operation, kind, actor, plan } = await releaseGroup(rewinding, name, actorOf());
    const isUntouched = kind !== "set_aside" && (plan === null || plan.partitions.length === 0);
    const where = isUntouched
      ? "its offsets were not touched"
      : "its offsets are wherever the command had set them: see tributary lag";
    print(`${name} is released from ${operation} (${kind}, ${actor}); ${where}`);
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
      "Examples:\n  $ tributary rewind analytics --to -2h\n  $ tributary rewind analytics --to -2h --yes\n  $ tributary rewind enrich --to 2026-11-21T14:05Z --reason 'redis was lost' --yes\n\nIts workers leave the group, its offsets are set to min(committed, where), read back and compared, and the workers join again. A command that is ended\nleaves the group held: run it again to go on, or give it up with `tributary groups release`.\n",
    )
    .action(rewind);
  program
    .command("relearn <stage>")
    .description(
      "empties what a stage remembers in Redis and folds its input again, without writing anything; shows first, does it with --yes",
    )
    .option("--reason <text>", "kept in the audit")
    .option("--yes", "do it")
    .option("--json", "as JSON")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary relearn attribute\n  $ tributary relearn attribute --yes\n\nAfter a Redis that was emptied this happens by itself, at the next event of each partition. A command that is ended\nleaves the group held: run it again to go on, or give it up with `tributary groups release`.\n",
    )
    .action(relearn);
};
