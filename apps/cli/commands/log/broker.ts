// Compares the topics and schemas of the broker and the registry with those that the repository
// declares.

import type { Command } from "commander";
import { openRegistry } from "../../../../infra/avro/registry.ts";
import type { Admin, TopicSetting } from "../../../../infra/kafka/kafka.ts";
import { CommandRefused } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { topicSettings, topics } from "../../../../topics.ts";
import { addresses } from "../../config.ts";
import { kafkaOf } from "../../connections.ts";

const withAdmin = async <T>(work: (admin: Admin) => Promise<T>): Promise<T> => {
  const admin = await kafkaOf().admin();
  try {
    return await work(admin);
  } finally {
    await admin.close();
  }
};

interface TopicOptions {
  readonly json?: boolean;
  readonly synced?: boolean;
}
const declaredTopics = ({ synced }: TopicOptions): readonly TopicSetting[] =>
  topicSettings.map((setting) => (synced && setting.money ? { ...setting, synced } : setting));
const syncedOption = ["--synced", "topics of money: each write is on the disk before it is acknowledged"] as const;

const planTopics = ({ json, synced = false }: TopicOptions): Promise<void> =>
  withAdmin(async (admin) => {
    const differences = await admin.plan(declaredTopics({ synced }));
    if (json) return printJson({ differences });
    if (differences.length === 0) return print("every topic is as topics.yaml declares it");
    print(
      table(
        ["topic", "what", "setting", "declared", "found"],
        differences.map((one) => [one.topic, one.what, one.setting, one.declared, one.found]),
      ),
    );
    tell(`to make it so: tributary topics apply${synced ? " --synced" : ""}`);
  });

const applyTopics = ({ json, synced = false }: TopicOptions): Promise<void> =>
  withAdmin(async (admin) => {
    const left = await admin.apply(declaredTopics({ synced }));
    if (json) printJson({ left });
    else if (left.length === 0) print("every topic is as topics.yaml declares it");
    const differences = left.map(
      ({ topic, setting, declared, found }) => `${topic} ${setting} is ${found}, declared ${declared}`,
    );
    if (left.length > 0)
      throw new CommandRefused(
        `left alone: ${differences.join("; ")}. ` +
          "Partition counts are never changed: keys would move away from what is remembered of them.",
      );
  });

const schemas = async (isApplied: boolean, json: boolean | undefined): Promise<void> => {
  const { registryUrl, topicPrefix } = addresses();
  const registry = openRegistry({ url: registryUrl, topicPrefix });
  if (isApplied) await registry.apply(Object.values(topics));
  const plan = await registry.plan(Object.values(topics));
  if (json) return printJson({ schemas: plan });
  print(
    table(
      ["subject", "state"],
      plan.map(({ subject, state }) => [subject, state]),
    ),
  );
  if (plan.some(({ state }) => state !== "registered")) tell("to register them: tributary schemas apply");
};

export const brokerCommands = (program: Command): void => {
  const ofTopics = program.command("topics").description("topics of the broker against topics.yaml");
  ofTopics
    .command("plan")
    .description("shows the differences; changes nothing")
    .option("--json", "as JSON")
    .option(...syncedOption)
    .action(planTopics);
  ofTopics
    .command("apply")
    .description("creates what is missing and corrects configuration")
    .option("--json", "as JSON")
    .option(...syncedOption)
    .action(applyTopics);
  const ofSchemas = program.command("schemas").description("schemas of the registry against schemas/*.avsc");
  ofSchemas
    .command("plan")
    .description("shows what is new or changed; changes nothing")
    .option("--json", "as JSON")
    .action(({ json }) => schemas(false, json));
  ofSchemas
    .command("apply")
    .description("registers them; refuses what cannot read older records (BACKWARD_TRANSITIVE)")
    .option("--json", "as JSON")
    .action(({ json }) => schemas(true, json));
};
