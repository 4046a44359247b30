// `tributary dlq set-aside`: moves the record at which a stage stands into the dead letters. Shows
// it first, and moves it with --yes.
import type { Command } from "commander";
import type { Redis } from "ioredis";
import { UsageError } from "../../../../../infra/runtime/command-errors.ts";
import { print, printJson, tell } from "../../../../../infra/runtime/output.ts";
import { actorOf } from "../../../../../modules/base/operations/operations.ts";
import { type AsidePorts, planAside, setAside } from "../../../../../modules/log/dead-letters/set-aside.ts";
import type { RewindSources } from "../../../../../modules/log/rewind/rewind-ports.ts";
import type { Position } from "../../../../../stream/flow.ts";
import { addresses } from "../../../config.ts";
import { withRedis, withRewinding } from "../../../connections.ts";
import { openLetterWire } from "./contents.ts";
import type { Options } from "./options.ts";

const PLACE = /^([a-z.]+)\/(\d{1,6})@(\d{1,15})$/;
const placeIn = (text: string): Position => {
  const [, topic, partition, offset] = PLACE.exec(text) ?? [];
  if (topic === undefined)
    throw new UsageError(`${text} is not <topic>/<partition>@<offset>, as the log line stage.stuck names them`);
  return { topic, partition: Number(partition), offset: Number(offset) };
};

const asidePorts = async (rewinding: RewindSources, redis: Redis): Promise<AsidePorts> => {
  const { postgresMemory } = await import("../../../../../infra/postgres/durable-memory.ts");
  const { redisMemory } = await import("../../../../../infra/redis/fast-memory.ts");
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

export const setAsideCommand = (dlq: Command): void => {
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
