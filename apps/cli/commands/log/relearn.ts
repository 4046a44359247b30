// `tributary relearn`: empties the memory of a stage in Redis and folds its input again. Shows the
// memory first, and empties it with --yes.
import type { Command } from "commander";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { actorOf } from "../../../../modules/base/operations/operations.ts";
import { type RelearnRequest, relearnStage } from "../../../../modules/log/rewind/relearn.ts";
import {
  type RememberedPartition,
  relearnable,
  relearnPorts,
  rememberedBy,
} from "../../../../modules/log/rewind/relearn-ports.ts";
import type { FoundGroup } from "../../../../modules/log/rewind/rewind-ports.ts";
import type { AnyStage } from "../../../../stream/flow.ts";
import { topics } from "../../../../topics.ts";
import { pipeline } from "../../../../topology.ts";
import { addresses } from "../../config.ts";
import { hostOf, withRedis, withRewinding } from "../../connections.ts";
import { openProgress } from "../../progress.ts";

interface RelearnOptions {
  readonly yes?: boolean;
  readonly json?: boolean;
  readonly reason?: string;
}

const showMemory = (
  stage: AnyStage,
  { group, nodes, topic }: FoundGroup,
  rows: readonly RememberedPartition[],
): void => {
  print(
    `${stage.name} remembers ${stage.memory!.name} in Redis; it is hosted in ${group} ` +
      `(${nodes.join(", ")}), which reads ${topic}`,
  );
  print(
    table(
      ["partition", "log begins at", "committed", "remembered up to"],
      rows.map(({ partition, low, committed, mark }) => [partition, low, committed, mark]),
    ),
  );
};

/** The archive has only what the edges take: docs/archive.md, "Memory that was lost". */
const pastOf = (topic: string): string =>
  topic === topics.eventsRaw.name ? ", from the archive what the log no longer holds," : ",";

const relearn = (name: string, options: RelearnOptions): Promise<void> =>
  withRewinding((rewinding) =>
    withRedis(async (redis) => {
      const stage = relearnable(pipeline, name);
      const hosting = await hostOf(rewinding, name);
      const { group, topic } = hosting;
      const { reason } = options;
      const request: RelearnRequest = {
        stage: name,
        group,
        topic,
        actor: actorOf(),
        ...(reason !== undefined && { reason }),
      };
      const ports = relearnPorts(rewinding, redis, `${addresses().topicPrefix}memory`, request);
      const partitions = await rememberedBy(rewinding, ports.marks, request);
      if (!options.json) showMemory(stage, hosting, partitions);
      if (!options.yes) {
        if (options.json) printJson({ stage: name, group, topic, partitions });
        return tell(
          `nothing was changed; with --yes its memory is emptied and its input read again${pastOf(topic)} and ` +
            "nothing is written meanwhile",
        );
      }
      const progress = openProgress("events", options.json);
      const report = await relearnStage({ ...ports, onStep: progress.note, onProgress: progress.at }, request);
      progress.done();
      if (options.json) return printJson(report);
      print(`${name} has learnt ${report.events} events again in ${report.seconds.toFixed(1)} s (${report.operation})`);
    }),
  );

export const relearnCommands = (program: Command): void => {
  program
    .command("relearn <stage>")
    .description(
      "empties what a stage remembers in Redis and folds its input again, without writing anything; " +
        "shows first, does it with --yes",
    )
    .option("--reason <text>", "kept in the audit")
    .option("--yes", "do it")
    .option("--json", "as JSON")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary relearn attribute\n  $ tributary relearn attribute --yes\n\nAfter a " +
        "Redis that was emptied this happens by itself, at the next event of each partition. What the log no longer\n" +
        "holds comes from the archive, back to 90 days. A command that is ended leaves the group held: run it again " +
        "to go\non, or give it up with `tributary groups release`.\n",
    )
    .action(relearn);
};
