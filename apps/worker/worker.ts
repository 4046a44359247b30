import { openApp } from "../../infra/http/app/open-app.ts";
import {
  type Consumer,
  copyReading,
  durableReading,
  openKafka,
  sinkReading,
  stageReading,
} from "../../infra/kafka/kafka.ts";
import type { Log } from "../../infra/runtime/log.ts";
import { folderOf, watchDisks } from "../../infra/runtime/metrics/disk-room.ts";
import type { Scope } from "../../infra/runtime/scope.ts";
import { heldAmong, recordHosting } from "../../modules/log/groups/group-holds.ts";
import type { Group } from "../../modules/log/groups/hosting.ts";
import { openMemberships } from "../../modules/log/groups/membership.ts";
import { recordedSoon } from "../../modules/log/groups/record-hosting.ts";
import type { Chain } from "../../stream/chain.ts";
import type { Topology } from "../../stream/flow.ts";
import type { Config } from "./config.ts";
import { reportLag } from "./lag.ts";
import { type Host, openRunners, type Runners } from "./runners.ts";
import { seriesOf } from "./series.ts";

/** The app, for `run` of infra/runtime/scope.ts. Returns once every group has been joined. */
export const worker =
  (topology: Topology, groups: readonly Group[], config: Config, log: Log) =>
  async (scope: Scope): Promise<void> => {
    const opening = { scope, config, log };
    const { metrics, ready } = await openApp("worker", opening, "the groups are not joined yet");
    metrics.expect(seriesOf(groups));
    await scope.open("disks", () => watchDisks({ objects: folderOf(config.OBJECT_STORE_URL) }, metrics));
    const kafka = openKafka({
      brokers: config.KAFKA_BROKERS,
      clientId: `tributary-${config.INSTANCE_NAME}`,
      topicPrefix: config.KAFKA_TOPIC_PREFIX,
      log,
    });
    const host: Host = { topology, groups, ...opening, metrics, kafka };
    const runners = await openRunners(host);
    const members = await scope.open("groups", () => joinGroups(host, runners));
    await scope.open("lag", () => reportLag({ kafka, groups, metrics, log }));
    const checks = Object.fromEntries(members.map(({ group, check }) => [group, check]));
    await ready(checks, { groups: groups.map(({ name }) => name) });
  };

const joinGroups = (host: Host, runners: Runners) => {
  const { groups, log, scope } = host;
  const names = groups.map(({ name }) => name);
  const memberships = groups.map((group) => ({
    group: group.name,
    join: () => join(group, host, runners),
    sessionTimeoutMs: readingOf(group).sessionTimeoutMs,
    log,
    fail: scope.fail,
  }));
  return openMemberships(memberships, () => heldAmong(runners.pool, names), log, scope.closing);
};

const join = async (group: Group, host: Host, { pool, processOf }: Runners): Promise<Consumer> => {
  const { config, log, scope, kafka } = host;
  const { process, onJoin } = processOf(group);
  const hosting = {
    group: group.name,
    topic: group.reads.name,
    nodes: nodesOf(group),
    instance: config.INSTANCE_NAME,
  };
  await recordedSoon(() => recordHosting(pool, hosting), log, group.name, scope.closing);
  return kafka.consumer({
    group: group.name,
    topics: [group.reads.name],
    reading: readingOf(group),
    onBatch: process,
    onJoin,
    // The worker closes and has abandoned the step. This is no failure, and the step's offset is
    // not committed.
    onCrash: (error) =>
      scope.closing.aborted ? log.debug("group.left", { group: group.name, error }) : scope.fail(error),
  });
};

const nodesOf = (group: Group): readonly string[] => {
  if (group.is === "chain") return group.chain.hosted.map(({ stage }) => stage.name);
  return group.is === "sinks" ? group.sinks.map(({ name }) => name) : [group.copy.name];
};

const readings = { chain: stageReading, sinks: sinkReading, copy: copyReading };
const isDurable = ({ hosted }: Chain): boolean => hosted.some(({ stage }) => stage.memory?.driver === "durable");
const readingOf = (group: Group) =>
  group.is === "chain" && isDurable(group.chain) ? durableReading : readings[group.is];
