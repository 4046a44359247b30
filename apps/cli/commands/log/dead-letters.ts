// `tributary dlq`: what lies in the dead letters, why, and what is done with it. Changes are shown
// first and made with --yes.

import type { Command } from "commander";
import type { Redis } from "ioredis";
import type pg from "pg";
import { UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { actorOf } from "../../../../modules/base/operations/operations.ts";
import { discardLetters, findLetter, retryLetters } from "../../../../modules/log/dead-letters/actions.ts";
import {
  type LetterKind,
  type LetterState,
  letterKinds,
  letterStates,
} from "../../../../modules/log/dead-letters/letter.ts";
import { countLetters, type LetterFilter, listLetters } from "../../../../modules/log/dead-letters/letter-reads.ts";
import { type AsidePorts, planAside, setAside } from "../../../../modules/log/dead-letters/set-aside.ts";
import type { RewindSources } from "../../../../modules/log/rewind/rewind-ports.ts";
import type { Position } from "../../../../stream/flow.ts";
import type { Wire } from "../../../../stream/wire.ts";
import { topics } from "../../../../topics.ts";
import { addresses } from "../../config.ts";
import { kafkaOf, wireOf, withRedis, withRewinding } from "../../connections.ts";
import { momentOf } from "../../moments.ts";
import { clientOf, withPool } from "../../pool.ts";
import { openProgress } from "../../progress.ts";

interface Options {
  readonly kind?: string;
  readonly state?: string;
  readonly stage?: string;
  readonly code?: string;
  readonly client?: string;
  readonly event?: string;
  readonly since?: string;
  readonly limit?: string;
  readonly all?: boolean;
  readonly reason?: string;
  readonly yes?: boolean;
  readonly json?: boolean;
}

/** Slow to load, for it knows every stage; a list does without it. */
const ofContents = () => import("../../../../modules/log/dead-letters/contents.ts");
const ID = /^dl_[0-9a-f]{32}$/;

const oneOf = <T extends string>(flag: string, text: string, known: readonly T[]): T => {
  const found = known.find((one) => one === text);
  if (found === undefined) throw new UsageError(`${flag}: ${text} is none of ${known.join(", ")}`);
  return found;
};

const filterOf = async (pool: pg.Pool, ids: readonly string[], options: Options): Promise<LetterFilter> => {
  const wrong = ids.find((id) => !ID.test(id));
  if (wrong !== undefined) throw new UsageError(`${wrong} is not a letter; see: tributary dlq list`);
  const { kind, state, stage, code, client, event, since } = options;
  return {
    ...(ids.length > 0 && { ids }),
    ...(kind !== undefined && { kind: oneOf<LetterKind>("--kind", kind, letterKinds) }),
    ...(state !== undefined && {
      states: state.split(",").map((one) => oneOf<LetterState>("--state", one, letterStates)),
    }),
    ...(stage !== undefined && { stage }),
    ...(code !== undefined && { code }),
    ...(client !== undefined && { client_id: (await clientOf(pool, client)).client_id }),
    ...(event !== undefined && { event_id: event }),
    ...(since !== undefined && { since: momentOf("--since", since, Date.now()) }),
  };
};

const time = (at: number | null): string | null =>
  at === null ? null : new Date(at).toISOString().slice(0, 19).replace("T", " ");
const countTable = async (pool: pg.Pool, filter: LetterFilter): Promise<number> => {
  const counts = await countLetters(pool, filter, null);
  if (counts.length > 0)
    print(
      table(
        ["kind", "state", "stage", "code", "letters", "oldest"],
        counts.map((one) => [one.kind, one.state, one.stage, one.code, one.count, time(one.oldest)]),
      ),
    );
  return counts.reduce((sum, { count }) => sum + count, 0);
};

const list = (options: Options): Promise<void> =>
  withPool(async (pool) => {
    const limit = Number(options.limit ?? 20);
    if (!Number.isInteger(limit) || limit < 0 || limit > 1_000)
      throw new UsageError(`--limit: ${options.limit} is not 0 to 1,000`);
    const filter = await filterOf(pool, [], options);
    const letters = await listLetters(pool, filter, { scope: null, limit });
    if (options.json) {
      const { shownLetter } = await ofContents();
      return printJson({ counts: await countLetters(pool, filter, null), data: letters.map(shownLetter) });
    }
    const count = await countTable(pool, filter);
    if (count === 0) return print("there is no such letter");
    print("");
    print(
      table(
        ["letter", "state", "stage", "code", "client", "event", "attempts", "last failed", "next attempt"],
        letters.map((letter) => [
          letter.letter_id,
          letter.state,
          letter.stage,
          letter.code,
          letter.client_id,
          letter.event_id,
          letter.attempts,
          time(letter.last_failed_at),
          time(letter.next_attempt_at),
        ]),
      ),
    );
    if (letters.length < count) tell(`the newest ${letters.length} of ${count}; more with --limit`);
    tell("one of them: tributary dlq show <letter>");
  });

const openLetterWire = async (): Promise<Wire> => {
  const { letterSources } = await import("../../../../modules/log/dead-letters/failure.ts");
  return wireOf([...letterSources, topics.operations]);
};

const show = (id: string, { json }: Options): Promise<void> =>
  withPool(async (pool) => {
    await filterOf(pool, [id], {});
    const letter = await findLetter(pool, id, null);
    if (letter === undefined) throw new Error(`there is no letter ${id}; see: tributary dlq list`);
    const { contentsOf, failuresShown } = await ofContents();
    const [contents] = await contentsOf({ kafka: kafkaOf(), wire: await openLetterWire() }, [letter]);
    const failures = await failuresShown(pool, id);
    const { record, hex, bytes, headers, key, ...facts } = contents!;
    if (json) return printJson({ ...facts, key, bytes, record, hex, headers, failures });
    for (const [name, value] of Object.entries({ ...facts, key, bytes }))
      if (value !== null) print(`${name.padEnd(16)} ${value}`);
    print(
      `\nheaders\n${Object.entries(headers)
        .map(([name, value]) => `  ${name}: ${value}`)
        .join("\n")}`,
    );
    if (record !== null) {
      print("\nrecord");
      printJson(record);
    } else print(bytes === null ? "\nno value" : `\nunreadable; bytes in hex\n${hex}`);
    print("\nfailures");
    print(
      table(
        ["failed at", "record", "code", "message"],
        failures.map((one) => [one.failed_at, one.source, one.code, one.message]),
      ),
    );
  });

const lettersIn = (count: number): string => (count === 1 ? "1 letter" : `${count} letters`);

const narrowed = (ids: readonly string[], filter: LetterFilter, options: Options): void => {
  if (ids.length === 0 && Object.keys(filter).length === 0 && options.all !== true)
    throw new UsageError(
      "name letters, or filter them (--kind, --state, --stage, --code, --client, --event, --since), or say --all",
    );
};

/** Shows what is concerned; with --yes does it. */
const change =
  (verb: "retry" | "discard", states: readonly LetterState[]) =>
  (ids: readonly string[], options: Options): Promise<void> =>
    withRewinding(async ({ pool, audit }) => {
      const asked = await filterOf(pool, ids, options);
      narrowed(ids, asked, options);
      const { reason } = options;
      if (verb === "discard" && (reason ?? "").trim() === "")
        throw new UsageError("--reason: say why; it is kept with each letter");
      const filter = { ...asked, states: asked.states?.filter((one) => states.includes(one)) ?? states };
      if (!options.yes) {
        const counts = await countLetters(pool, filter, null);
        const count = counts.reduce((sum, one) => sum + one.count, 0);
        if (options.json) return printJson({ letters: count, counts, done: false });
        await countTable(pool, filter);
        print(`${lettersIn(count)} would be ${verb === "retry" ? "sent again now" : "given up for good"}`);
        return tell(`nothing was changed; add --yes to ${verb} them`);
      }
      const by = actorOf();
      const done =
        verb === "retry"
          ? await retryLetters({ pool, audit }, filter, by)
          : await discardLetters({ pool, audit }, filter, { actor: by, reason: reason! });
      if (options.json)
        return printJson({ letters: done.ids.length, operation: done.operation, ids: done.ids, done: true });
      print(
        `${lettersIn(done.ids.length)} ` +
          `${verb === "retry" ? "due now; the keeper sends within seconds" : "given up"}; ${done.operation}`,
      );
    });

const exported = (options: Options): Promise<void> =>
  withPool(async (pool) => {
    const filter = await filterOf(pool, [], options);
    const total = (await countLetters(pool, filter, null)).reduce((sum, { count }) => sum + count, 0);
    const ports = { kafka: kafkaOf(), wire: await openLetterWire() };
    const { eachWithContents } = await ofContents();
    const progress = openProgress("letters");
    let done = 0;
    for await (const letters of eachWithContents(pool, ports, filter)) {
      for (const one of letters)
        print(JSON.stringify(one, (_, part) => (typeof part === "bigint" ? String(part) : part)));
      done += letters.length;
      progress.at(done, total);
    }
    progress.done();
  });

const PLACE = /^([a-z.]+)\/(\d{1,6})@(\d{1,15})$/;
const placeIn = (text: string): Position => {
  const [, topic, partition, offset] = PLACE.exec(text) ?? [];
  if (topic === undefined)
    throw new UsageError(`${text} is not <topic>/<partition>@<offset>, as the log line stage.stuck names them`);
  return { topic, partition: Number(partition), offset: Number(offset) };
};

const asidePorts = async (rewinding: RewindSources, redis: Redis): Promise<AsidePorts> => {
  const { postgresMemory } = await import("../../../../infra/postgres/durable-memory.ts");
  const { redisMemory } = await import("../../../../infra/redis/fast-memory.ts");
  const fast = redisMemory(redis, `${addresses().topicPrefix}memory`);
  return {
    ...rewinding,
    wire: await openLetterWire(),
    produce: rewinding.audit.produce,
    memories: { durable: postgresMemory(rewinding.pool), fast },
    onStep: tell,
  };
};

const aside = (stage: string, place: string, { reason, yes, json }: Options): Promise<void> =>
  withRewinding((rewinding) =>
    withRedis(async (redis) => {
      if (reason === undefined || reason.trim() === "")
        throw new UsageError("--reason: say why; it is kept in the audit and in the letter");
      const ports = await asidePorts(rewinding, redis);
      const request = { stage, place: placeIn(place), actor: actorOf(), reason };
      if (!yes) {
        const { hosting, event, to } = await planAside(ports, request);
        const { group, nodes } = hosting;
        if (json) return printJson({ group, nodes, place, event_id: event?.id ?? null, to, done: false });
        print(`${group} (${nodes.join(", ")}) stands at ${place}`);
        print(event === undefined ? "the record cannot be read" : `the record is ${event.id}`);
        print(`it would go to ${to}, and the group on to the next record`);
        return tell("nothing was changed; add --yes to set it aside");
      }
      const { operation, group, to, event } = await setAside(ports, request);
      if (json) return printJson({ operation, group, place, event_id: event?.id ?? null, to, done: true });
      print(`${place} lies in ${to ?? "the dead letters"}, and ${group} goes on behind it; ${operation}`);
      tell(
        "its letter is parked; once a corrected release runs: tributary dlq list --code set_aside, then " +
          "tributary dlq retry <letter> --yes",
      );
    }),
  );

export const deadLetterCommands = (program: Command): void => {
  const dlq = program
    .command("dlq")
    .description("dead letters: what was refused, why, and what becomes of it (docs/dead-letters.md)");
  const filtered = (command: Command): Command =>
    command
      .option("--kind <kind>", letterKinds.join(", "))
      .option("--state <state,...>", letterStates.join(", "))
      .option("--stage <name>", "who refused it")
      .option("--code <code>", "why")
      .option("--client <slug or id>", "whose event it is")
      .option("--event <id>", "by the id that the event has in the log")
      .option("--since <time>", "failed last since then: -24h, or a time with its zone")
      .option("--json", "as JSON");
  filtered(dlq.command("list"))
    .description("counts by reason, then the newest letters")
    .option("--limit <n>", "how many letters", "20")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary dlq list\n  $ tributary dlq list --state parked,waiting --code " +
        "refused_by_store --since -24h\n",
    )
    .action(list);
  dlq
    .command("show <letter>")
    .description("the record (as JSON, or its bytes), its headers, every failure")
    .option("--json", "as JSON")
    .addHelpText("before", "Example:\n  $ tributary dlq show dl_0123456789abcdef0123456789abcdef\n")
    .action(show);
  filtered(dlq.command("retry [letters...]"))
    .description("sends waiting and parked letters again now; shows which, and does it with --yes")
    .option("--all", "every one")
    .option("--yes", "do it")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary dlq retry dl_0123456789abcdef0123456789abcdef --yes\n  $ tributary dlq " +
        "retry --code refused_by_store --client casa-verde --yes\n",
    )
    .action(change("retry", ["waiting", "parked"]));
  filtered(dlq.command("discard [letters...]"))
    .description("gives open letters up for good; shows which, and does it with --yes")
    .requiredOption("--reason <text>", "why, in words; kept with each letter")
    .option("--all", "every one")
    .option("--yes", "do it")
    .addHelpText(
      "before",
      "Example:\n  $ tributary dlq discard --code not_framed --stage enrich --reason 'test garbage' --yes\n",
    )
    .action(change("discard", ["waiting", "retrying", "parked"]));
  filtered(dlq.command("export"))
    .description("every letter with its record, one JSON object a line, on stdout")
    .addHelpText("before", "Example:\n  $ tributary dlq export --state parked > letters.ndjson\n")
    .action(exported);
  dlq
    .command("set-aside <stage> <place>")
    .description(
      "takes the one record that stops a stage out of its way, into the dead letters; place: " +
        "<topic>/<partition>@<offset>",
    )
    .requiredOption("--reason <text>", "why, in words; kept in the audit and in the letter")
    .option("--yes", "do it")
    .option("--json", "as JSON")
    .addHelpText(
      "before",
      "Example:\n  $ tributary dlq set-aside commission conversions/2@1187 --reason 'stops at a value " +
        "of 0, mended in 0.2.1' --yes\n\nOnly the record at which the group stands. A rewind over it, " +
        "before a corrected release runs, stops there again.\n",
    )
    .action(aside);
};
