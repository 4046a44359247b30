// Every command with its description, its file, and the servers that it needs. A file is loaded
// when one of its commands is called, so that help and simple reads are quick.
import type { Command } from "commander";
import type { Server } from "./reachable.ts";

interface CommandWords {
  readonly description: string;
  /** Servers that must answer before the command begins. */
  readonly needs: readonly Server[];
}
export interface CommandFile {
  readonly load: () => Promise<(program: Command) => void>;
  readonly commands: Readonly<Record<string, CommandWords>>;
}

const known = (description: string, ...needs: readonly Server[]): CommandWords => ({ description, needs });

/** The order is that of the help. */
export const commandFiles: readonly CommandFile[] = [
  {
    load: async () => (await import("./commands/running/status.ts")).statusCommand,
    commands: { status: known("what runs here: addresses, processes, demo tokens, what the keeper knows") },
  },
  {
    load: async () => (await import("./commands/running/installation.ts")).installationCommands,
    commands: {
      doctor: known("checks the machine and the installation, and says how to mend what is wrong"),
      login: known("prints a user token of the embedded identity provider (15 minutes)"),
    },
  },
  {
    load: async () => (await import("./commands/running/examples.ts")).exampleCommands,
    commands: { examples: known("every way of sending events to what runs here, as commands to paste") },
  },
  {
    load: async () => (await import("./commands/running/data.ts")).dataCommands,
    commands: {
      send: known("sends each row of a CSV file as an event; sending it again changes nothing", "postgres"),
    },
  },
  {
    load: async () => (await import("./commands/running/import.ts")).importCommand,
    commands: {
      import: known("uploads a CSV file of a partner, follows its import, and prints counts and both sums", "postgres"),
    },
  },
  {
    load: async () => (await import("./commands/reports/report.ts")).reportCommand,
    commands: { report: known("orders, revenue, refunds and commissions of a client", "postgres") },
  },
  {
    load: async () => (await import("./commands/reports/reconcile.ts")).reconcileCommand,
    commands: {
      reconcile: known(
        "what a shop's own list of orders has and we have not, and the other way round, with reasons",
        ...(["postgres", "clickhouse"] as const),
      ),
    },
  },
  {
    load: async () => (await import("./commands/reference/reference.ts")).referenceCommands,
    commands: {
      reference: known("shows and saves clients, segments, partners, campaigns, links, contracts, rules", "postgres"),
    },
  },
  {
    load: async () => (await import("./commands/money/explain.ts")).explainCommands,
    commands: {
      explain: known(
        "why an event was credited as it was, and what it earned: versions, candidates, fraud, rules, contracts, " +
          "ledger",
        ...(["postgres", "clickhouse"] as const),
      ),
    },
  },
  {
    load: async () => (await import("./commands/money/decide.ts")).decideCommands,
    commands: {
      decide: known(
        "decides about an order, an event or a device; shows it first, and decides with --yes",
        ...(["postgres", "clickhouse", "kafka", "registry"] as const),
      ),
    },
  },
  {
    load: async () => (await import("./commands/privacy/erase.ts")).eraseCommand,
    commands: {
      erase: known(
        "erases a person from every store; shows first what it finds, and erases it with --yes",
        ...(["postgres", "clickhouse", "redis"] as const),
      ),
    },
  },
  {
    load: async () => (await import("./commands/money/waiting-items.ts")).waitingCommands,
    commands: {
      waiting: known("lists what waits for a line or a person, and refunds that are void, with what helps", "postgres"),
    },
  },
  {
    load: async () => (await import("./commands/money/fraud.ts")).fraudCommands,
    commands: { fraud: known("what is found over many events", "postgres", "clickhouse") },
  },
  {
    load: async () => (await import("./commands/access/tokens.ts")).tokenCommands,
    commands: { tokens: known("opaque tokens of senders, operators and partners", "postgres") },
  },
  {
    load: async () => (await import("./commands/access/users.ts")).userCommands,
    commands: {
      users: known("who may come in, and as what; the first admin is made here", "postgres"),
    },
  },
  {
    load: async () => (await import("./commands/access/secrets.ts")).secretCommands,
    commands: { secrets: known("TRIBUTARY_SECRET: what hangs on it, and its rotation", "postgres") },
  },
  {
    load: async () => (await import("./commands/reference/sources.ts")).sourceCommands,
    commands: {
      sources: known("external sources: networks, relays, apps and webhooks that send events of a client", "postgres"),
    },
  },
  {
    load: async () => (await import("./commands/reference/quotas.ts")).quotaCommands,
    commands: {
      quotas: known("how much of its quota of events each client has spent, and what each plan allows", "postgres"),
    },
  },
  {
    load: async () => (await import("./commands/access/processors.ts")).processorCommands,
    commands: {
      processors: known("payment processors of a client: what their notices are signed with", "postgres"),
    },
  },
  {
    load: async () => (await import("./commands/running/alerts.ts")).alertCommands,
    commands: {
      alerts: known("alerts of stores that failed and recovered, newest first", "postgres"),
      probes: known("how the keeper finds each store", "postgres"),
      mail: known("mails that the embedded stack has kept instead of delivering them"),
    },
  },
  {
    load: async () => (await import("./commands/running/pixel.ts")).pixelCommands,
    commands: {
      pixel: known(
        "the pixel of a client: its configuration, and what is wrong with it",
        ...(["postgres", "clickhouse"] as const),
      ),
    },
  },
  {
    load: async () => (await import("./commands/running/replay-view.ts")).replayViewCommand,
    commands: {
      "replay-view": known(
        "plays one recorded visit back in a browser of this machine; each look is audited",
        ...(["postgres", "clickhouse"] as const),
      ),
    },
  },
  {
    load: async () => (await import("./commands/log/groups.ts")).groupCommands,
    commands: {
      groups: known(
        "the consumer groups: state, members, what they host, how far they are behind, what holds them",
        ...(["postgres", "kafka"] as const),
      ),
      lag: known(
        "how far each group is behind the log, in records and in seconds since the oldest of them was appended",
        ...(["postgres", "kafka"] as const),
      ),
    },
  },
  {
    load: async () => (await import("./commands/running/look.ts")).lookCommands,
    commands: {
      peek: known("a few records of a topic, decoded; the newest ones unless --from is given", "kafka", "registry"),
      tail: known("what comes to a topic, decoded, until Ctrl-C", "kafka", "registry"),
      operations: known(
        "who rewound, replayed, restored, reprocessed or discarded what, and how it ended",
        ...(["kafka", "registry"] as const),
      ),
    },
  },
  {
    load: async () => (await import("./commands/log/rewind.ts")).rewindCommands,
    commands: {
      rewind: known(
        "sets a stage or sink back in the log, so that it reads again; shows first, does it with --yes",
        ...(["postgres", "kafka", "registry"] as const),
      ),
    },
  },
  {
    load: async () => (await import("./commands/log/relearn.ts")).relearnCommands,
    commands: {
      relearn: known(
        "empties what a stage remembers in Redis and folds its input again, without writing anything; shows first, " +
          "does it with --yes",
        ...(["postgres", "kafka", "registry", "redis"] as const),
      ),
    },
  },
  {
    load: async () => (await import("./commands/log/replay.ts")).replayCommands,
    commands: {
      replay: known(
        "writes a window of the log to the stores again: lost rows come back, nothing is computed again; shows what " +
          "it would read, does it with --yes",
        ...(["postgres", "kafka", "registry"] as const),
      ),
    },
  },
  {
    load: async () => (await import("./commands/money/reprocess.ts")).reprocessCommands,
    commands: {
      reprocess: known(
        "computes a window with today's code and reference data and shows what differs; writes it with --yes",
        ...(["postgres", "clickhouse", "kafka", "registry"] as const),
      ),
    },
  },
  {
    load: async () => (await import("./commands/log/dead-letters.ts")).deadLetterCommands,
    commands: {
      dlq: known("dead letters: what was refused, why, and what becomes of it (docs/dead-letters.md)", "postgres"),
    },
  },
  {
    load: async () => (await import("./commands/log/archive.ts")).archiveCommands,
    commands: {
      archive: known(
        "what the archive holds by hour, and whether its files cover the log without gap or overlap",
        "kafka",
      ),
      restore: known(
        "brings a window that the log no longer holds back from the archive, into the topic events.restored",
        ...(["postgres", "kafka", "registry"] as const),
      ),
    },
  },
  {
    load: async () => (await import("./commands/running/hash.ts")).hashCommands,
    commands: {
      hash: known(
        "one number for what all tables hold that are read from the log; equal numbers, equal tables",
        ...(["postgres", "clickhouse"] as const),
      ),
    },
  },
  {
    load: async () => (await import("./commands/log/broker.ts")).brokerCommands,
    commands: {
      topics: known("topics of the broker against topics.yaml", "kafka"),
      schemas: known("schemas of the registry against schemas/*.avsc", "registry"),
    },
  },
  {
    load: async () => (await import("./commands/running/stores.ts")).storeCommands,
    commands: {
      migrate: known("tables of Postgres and ClickHouse; forward only, a failed step is taken up again", "clickhouse"),
      seed: known(
        "says what an installation lacks before people can use it, and makes nothing; --demo makes the demo",
        "postgres",
      ),
    },
  },
  {
    load: async () => (await import("./commands/running/chaos.ts")).chaosCommands,
    commands: {
      chaos: known(
        "breaks the embedded stack of this machine on purpose, while events come, and asks every law whether it " +
          "still holds",
      ),
    },
  },
];

/** Returns the file of a command; undefined for an unknown name. */
export const fileOf = (name: string | undefined): CommandFile | undefined =>
  commandFiles.find(({ commands }) => name !== undefined && Object.hasOwn(commands, name));

export const needsOf = (name: string): readonly Server[] => fileOf(name)?.commands[name]?.needs ?? [];
