// The consumer groups and their lag.
import type { Command } from "commander";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { actorOf } from "../../../../modules/base/operations/operations.ts";
import { type GroupRead, groupsNow } from "../../../../modules/log/groups/group-reads.ts";
import { groupNamed } from "../../../../modules/log/groups/hosting.ts";
import { movesOf } from "../../../../modules/log/rewind/rewind-plan.ts";
import { releaseGroup } from "../../../../modules/log/rewind/rewind-ports.ts";
import { pipeline } from "../../../../topology.ts";
import { kafkaOf, withRewinding } from "../../connections.ts";
import { spanOf } from "../../moments.ts";
import { withPool } from "../../pool.ts";

const read = (): Promise<readonly GroupRead[]> =>
  withPool(async (pool) => {
    const kafka = kafkaOf();
    const admin = await kafka.admin();
    try {
      return await groupsNow({ pool, kafka, admin, topology: pipeline }, Date.now());
    } finally {
      await admin.close();
    }
  });

/** Describes the hold of a group for the table. */
const heldBy = ({ hold }: GroupRead): string | null => {
  if (hold === null) return null;
  const state = hold.releasedAt === null ? "held" : "catching up";
  const to =
    hold.plan === null || hold.kind !== "rewind" ? "" : ` to ${hold.plan.to}, ${movesOf(hold.plan).length} partitions`;
  return `${state}: ${hold.kind}${to} by ${hold.actor} (${hold.operation})`;
};

const groups = async ({ json }: { json?: boolean }): Promise<void> => {
  const found = await read();
  if (json) return printJson({ groups: found });
  print(
    table(
      ["group", "state", "members", "on", "hosts", "partitions", "lag", "oldest waits", "hold"],
      found.map((one) => [
        one.group,
        one.state,
        one.members.length,
        [...new Set(one.members.map(({ clientId, host }) => `${clientId}${host}`))].join(" ") || null,
        one.hosts.join(","),
        one.partitions.length,
        one.lag,
        one.lag === 0 ? null : spanOf(one.seconds),
        heldBy(one),
      ]),
    ),
  );
  for (const { group, hold, members } of found) {
    if (hold !== null && hold.releasedAt === null)
      tell(
        `${group} is not read while it is held; to go on: the command that holds it again; to give it ` +
          `up: tributary groups release ${group}`,
      );
    else if (members.length === 0) tell(`${group} has no worker: start one, see docs/operate.md, "Hosting"`);
  }
};

const lag = async ({ json }: { json?: boolean }): Promise<void> => {
  const found = await read();
  if (json) return printJson({ lag: found.flatMap(({ partitions }) => partitions) });
  print(
    table(
      ["group", "topic", "partitions", "lag", "seconds", "worst partition"],
      found.map(({ group, topic, partitions, lag: records, seconds }) => {
        const worst = [...partitions].sort((a, b) => b.lag - a.lag)[0];
        return [
          group,
          topic,
          partitions.length,
          records,
          Math.round(seconds),
          worst === undefined || worst.lag === 0 ? null : `${worst.partition}: ${worst.lag}`,
        ];
      }),
    ),
  );
};

/** Ends a hold by hand, when its command will not be continued. */
const release = (group: string): Promise<void> =>
  withRewinding(async (rewinding) => {
    const name = group.startsWith(groupNamed("")) ? group : groupNamed(group);
    const { operation, kind, actor, plan } = await releaseGroup(rewinding, name, actorOf());
    const isUntouched = kind !== "set_aside" && (plan === null || plan.partitions.length === 0);
    const where = isUntouched
      ? "its offsets were not touched"
      : "its offsets are where the command had set them: see tributary lag";
    print(`${name} is released from ${operation} (${kind}, ${actor}); ${where}`);
  });

export const groupCommands = (program: Command): void => {
  const command = program
    .command("groups")
    .description("the consumer groups: state, members, what they host, how far they are behind, what holds them")
    .option("--json", "everything, by partition, as JSON")
    .addHelpText("before", "Examples:\n  $ tributary groups\n  $ tributary groups release tributary.analytics\n")
    .action(groups);
  command
    .command("release <group>")
    .description("lets workers join a group again that a command had held and left")
    .addHelpText("before", "Example:\n  $ tributary groups release tributary.analytics\n")
    .action(release);
  program
    .command("lag")
    .description(
      "how far each group is behind the log, in records and in seconds since the oldest of them was appended",
    )
    .option("--json", "by partition, as JSON")
    .addHelpText("before", "Examples:\n  $ tributary lag\n  $ tributary lag --json\n")
    .action(lag);
};
