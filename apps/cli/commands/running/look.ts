// Shows records of topics: a few, those that arrive, and the audit. Only reads, and leaves no
// trace.

import type { Command } from "commander";
import { openRegistry } from "../../../../infra/avro/registry.ts";
import { openWire } from "../../../../infra/avro/wire.ts";
import { type Admin, type Kafka, peek as peekAt } from "../../../../infra/kafka/kafka.ts";
import { UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import type { Operation } from "../../../../schemas/generated.ts";
import type { UnixMs } from "../../../../stream/flow.ts";
import type { PlacedMessage } from "../../../../stream/messages.ts";
import type { Wire } from "../../../../stream/wire.ts";
import { UnreadableRecord } from "../../../../stream/wire.ts";
import { topicSettings, topics } from "../../../../topics.ts";
import { addresses } from "../../config.ts";
import { kafkaOf } from "../../connections.ts";
import { momentOf } from "../../moments.ts";
import { clientOf, withPool } from "../../pool.ts";
import { clientIdOf, decoded, type Readable, readable, withAmounts } from "../../readable.ts";

interface Eyes {
  readonly kafka: Kafka;
  readonly admin: Admin;
  readonly wire: Wire;
}
const MOST = 10_000;

const withEyes = async <T>(work: (eyes: Eyes) => Promise<T>): Promise<T> => {
  const { registryUrl, topicPrefix } = addresses();
  const kafka = kafkaOf();
  const admin = await kafka.admin();
  try {
    return await work({
      kafka,
      admin,
      wire: await openWire(Object.values(topics), openRegistry({ url: registryUrl, topicPrefix })),
    });
  } finally {
    await admin.close();
  }
};

const checkTopic = (topic: string): void => {
  const known = topicSettings.map(({ name }) => name as string);
  if (!known.includes(topic)) throw new UsageError(`${topic} is no topic; there are ${known.join(", ")}`);
};
const numberOf = (flag: string, text: string, most: number): number => {
  if (!/^\d+$/.test(text) || Number(text) > most) throw new UsageError(`${flag}: ${text} is not 0 to ${most}`);
  return Number(text);
};

/** Prints one record a line, so that the output can be piped. */
const lineOf = (one: Readable): string =>
  JSON.stringify(one, (_, part) => (typeof part === "bigint" ? part.toString() : part));

const show = (one: Readable, isJson = false): void => {
  if (isJson) {
    print(lineOf(one));
    return;
  }
  const { topic, partition, offset, appended_at, key, event, unreadable, headers } = one;
  print(
    `${topic}/${partition}@${offset}  ${appended_at}  key ` +
      `${key ?? "none"}${event === undefined ? "" : `  event time ${event.at}  id ${event.id}`}`,
  );
  for (const [name, text] of Object.entries(headers ?? {})) print(`  ${name}: ${text}`);
  if (unreadable !== undefined)
    print(`  cannot be read: ${unreadable.why}\n  ${unreadable.bytes} bytes: ${unreadable.hex}`);
  else print(`  ${JSON.stringify(withAmounts(event?.data), null, 2).replaceAll("\n", "\n  ")}`);
};

interface PeekOptions {
  readonly partition?: string;
  readonly offset?: string;
  readonly at?: string;
  readonly n: string;
  readonly json?: boolean;
}

const peek = (topic: string, options: PeekOptions): Promise<void> => {
  checkTopic(topic);
  const count = numberOf("-n", options.n, MOST);
  const only = options.partition === undefined ? undefined : numberOf("--partition", options.partition, 10_000);
  const offset =
    options.offset === undefined ? undefined : numberOf("--offset", options.offset, Number.MAX_SAFE_INTEGER);
  if (offset !== undefined && only === undefined) throw new UsageError("--offset: name the --partition too");
  if (offset !== undefined && options.at !== undefined)
    throw new UsageError("--at and --offset both say where: give one");
  const now = Date.now();
  const at = options.at === undefined ? undefined : momentOf("--at", options.at, now);
  return withEyes(async ({ kafka, admin, wire }) => {
    const marks = (await admin.watermarks(topic)).filter(({ partition }) => only === undefined || partition === only);
    if (marks.length === 0) throw new UsageError(`--partition: ${topic} has no partition ${only}`);
    const atTime = at === undefined ? undefined : await admin.offsetsAt(topic, at);
    // Without a given place it starts at the newest records.
    const from = new Map(
      marks.map(({ partition, low, high }) => [
        partition,
        Math.max(low, offset ?? atTime?.get(partition) ?? high - count),
      ]),
    );
    const seen = [...(await peekAt(kafka, { topic, from, count }))].sort(
      (a, b) => a.appendedAt - b.appendedAt || a.partition - b.partition || a.offset - b.offset,
    );
    const isNewest = offset === undefined && at === undefined;
    const chosen = isNewest ? seen.slice(Math.max(0, seen.length - count)) : seen.slice(0, count);
    for (const record of chosen) show(await readable(wire, record), options.json);
    if (chosen.length === 0)
      tell(
        `nothing lies there; ${topic} holds ` +
          `${marks.map(({ partition, low, high }) => `${partition}: ${low} to ${high}`).join(", ")}`,
      );
  });
};

const tail = (topic: string, options: { client?: string; grep?: string; json?: boolean }): Promise<void> => {
  checkTopic(topic);
  return withEyes(async ({ kafka, admin, wire }) => {
    const { client } = options;
    const clientId =
      client === undefined ? undefined : await withPool(async (pool) => (await clientOf(pool, client)).client_id);
    const from = new Map((await admin.watermarks(topic)).map(({ partition, high }) => [partition, high]));
    const ending = new AbortController();
    process.once("SIGINT", () => ending.abort(new Error("ended")));
    process.stdout.once("error", () => ending.abort(new Error("the output is not read")));
    tell(`waiting for what comes to ${topic}; Ctrl-C ends it`);
    const isWanted = (one: Readable): boolean =>
      (clientId === undefined || clientIdOf(one) === clientId) &&
      (options.grep === undefined || lineOf(one).includes(options.grep));
    try {
      await kafka.replay({
        topics: [topic],
        from: new Map([[topic, from]]),
        isFollowing: true,
        signal: ending.signal,
        onBatch: async ({ partition, messages }) => {
          for (const message of messages) {
            const one = await readable(wire, { ...message, topic, partition });
            if (isWanted(one)) show(one, options.json);
          }
        },
      });
    } catch (error) {
      if (!ending.signal.aborted) throw error;
    }
  });
};

interface OperationAt {
  readonly at: UnixMs;
  readonly operation: Operation;
}
/**
 * Returns the operations in these records of the audit. A record that cannot be read is reported
 * and skipped, because the others are still needed.
 */
export const operationsIn = async (
  wire: Wire,
  records: readonly Pick<PlacedMessage, "topic" | "partition" | "offset" | "value">[],
  say: (text: string) => void,
): Promise<readonly OperationAt[]> => {
  const found: OperationAt[] = [];
  for (const record of records)
    try {
      const { at, data } = await decoded(wire, topics.operations, record);
      found.push({ at, operation: data });
    } catch (error) {
      if (!(error instanceof UnreadableRecord)) throw error;
      say(`passed over: ${record.topic}/${record.partition}@${record.offset}: ${error.message}`);
    }
  return found;
};

const operations = ({ since, json }: { since?: string; json?: boolean }): Promise<void> => {
  const from = since === undefined ? Number.NEGATIVE_INFINITY : momentOf("--since", since, Date.now());
  return withEyes(async ({ kafka, wire }) => {
    const found: OperationAt[] = [];
    await kafka.replay({
      topics: [topics.operations.name],
      onBatch: async ({ topic, partition, messages }) => {
        const records = messages.map(({ offset, value }) => ({ topic, partition, offset, value }));
        found.push(...(await operationsIn(wire, records, tell)).filter(({ at }) => at >= from));
      },
    });
    if (json)
      return printJson({
        operations: found.map(({ at, operation }) => ({
          at: new Date(at).toISOString(),
          ...operation,
          detail: JSON.parse(operation.detail),
        })),
      });
    print(
      table(
        ["at", "what", "phase", "on", "by", "reason", "operation"],
        found.map(({ at, operation: one }) => [
          new Date(at).toISOString(),
          one.kind,
          one.phase,
          one.target,
          one.actor,
          one.reason,
          one.operation_id,
        ]),
      ),
    );
  });
};

export const lookCommands = (program: Command): void => {
  program
    .command("peek <topic>")
    .description("a few records of a topic, decoded; the newest ones unless --from is given")
    .option("--partition <n>", "of this partition alone")
    .option("--offset <n>", "from this offset of the partition on")
    .option("--at <time>", "from what was appended at this time on: 2026-11-21T14:05Z, or -2h")
    .option("-n <count>", "how many", "5")
    .option("--json", "one JSON object a line; amounts in minor units")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary peek events.raw\n  $ tributary peek claims --at -1h -n 3\n  $ " +
        "tributary peek s2s.dlq --partition 2 --offset 17 -n 1\n",
    )
    .action(peek);
  program
    .command("tail <topic>")
    .description("what comes to a topic, decoded, until Ctrl-C")
    .option("--client <slug or id>", "of this client alone")
    .option("--grep <text>", "with this text in it")
    .option("--json", "one JSON object a line; amounts in minor units")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary tail events.attributed --client aurora-music\n  $ tributary tail " +
        "events.raw --grep order-1001 --json\n",
    )
    .action(tail);
  program
    .command("operations")
    .description("who rewound, replayed, restored, reprocessed or discarded what, and how it ended")
    .option("--since <time>", "2026-11-21T14:05Z, or -1d")
    .option("--json", "with all details, as JSON")
    .addHelpText("before", "Examples:\n  $ tributary operations --since -1d\n  $ tributary operations --json\n")
    .action(operations);
};
