// `tributary archive`: shows what the archive holds, and whether it is whole.
import type { Command } from "commander";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { archiving } from "../../../../modules/log/groups/archive-group.ts";
import { filesOf } from "../../../../sinks/archive/archive-reads.ts";
import { checkArchive } from "../../../../sinks/archive/check.ts";
import { type ArchiveFile, hourText } from "../../../../sinks/archive/names.ts";
import { kafkaOf, withObjects } from "../../connections.ts";
import { momentOf } from "../../moments.ts";
import { openProgress } from "../../progress.ts";
import { retentionCommand } from "./archive-retention.ts";
import { rangeLines } from "./offset-ranges.ts";
import { restoreCommand } from "./restore.ts";

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
      ...rangeLines("gap", gaps),
      ...rangeLines("overlap", overlaps),
      ...damaged.map(({ message, key }) => `damaged: ${key}: ${message}`),
    ];
    for (const problem of problems) tell(problem);
    if (problems.length > 0) process.exitCode = 1;
    else if (!json && hours.length > 0)
      tell(`no gap, no overlap${verify ? ", no damage" : "; to compare checksums too: tributary archive --verify"}`);
  });

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
  restoreCommand(program);
};
