// Kafka 4.1 from the jars that Maven fetched: one process that is broker and controller, or a
// cluster of them.
import { execFile } from "node:child_process";
import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { connect } from "node:net";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import type { BrokerName, Place, Service } from "../service.ts";
import { fetchJars } from "./jars.ts";

// Any fixed value works: it keeps a broker from reading the data of another cluster, and there is
// one cluster for each folder.
const CLUSTER_ID = "dHJpYnV0YXJ5LXN0YWNrMQ";

/** True if the program that starts it can be run. */
const hasJava = ({ machine: { path, javaHome } }: Place): boolean =>
  (javaHome === undefined ? path.split(delimiter) : [join(javaHome, "bin")]).some((folder) => {
    try {
      accessSync(join(folder, process.platform === "win32" ? "java.exe" : "java"), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });

const java = ({ machine }: Place): string =>
  machine.javaHome === undefined ? "java" : join(machine.javaHome, "bin", "java");

/**
 * The settings that do not depend on the machine. docker-compose.yml has the same ones; a test
 * compares them.
 */
export const brokerSettings: Readonly<Record<string, string | number | boolean>> = {
  "num.network.threads": 2,
  "num.io.threads": 4,
  "background.threads": 2,
  "log.cleaner.threads": 1,
  "num.recovery.threads.per.data.dir": 2,
  "num.replica.fetchers": 1,
  "socket.send.buffer.bytes": 1_048_576,
  "socket.receive.buffer.bytes": 1_048_576,
  // Room for the largest request; 100 messages of the largest size below are far beyond it.
  "socket.request.max.bytes": 104_857_600,
  "message.max.bytes": 16_777_216,
  "log.message.timestamp.type": "LogAppendTime",
  "log.segment.bytes": 134_217_728,
  // Each topic declares how long it is kept; no record may vanish because a topic forgot to.
  "log.retention.ms": -1,
  "auto.create.topics.enable": false,
  "delete.topic.enable": true,
  "num.partitions": 12,
  "default.replication.factor": 1,
  "min.insync.replicas": 1,
  "offsets.topic.num.partitions": 4,
  "offsets.topic.replication.factor": 1,
  // Four years: a group that pauses for months must not lose its position.
  "offsets.retention.minutes": 2_102_400,
  "transaction.state.log.num.partitions": 4,
  "transaction.state.log.replication.factor": 1,
  "transaction.state.log.min.isr": 1,
  "share.coordinator.state.topic.num.partitions": 1,
  "share.coordinator.state.topic.replication.factor": 1,
  "share.coordinator.state.topic.min.isr": 1,
  "group.initial.rebalance.delay.ms": 0,
  // By default a commit waits 5 ms to be written with others, and its member waits with it, for
  // each batch of a chain. Commits that can go together are one request already
  // (infra/kafka/commits.ts).
  "group.coordinator.append.linger.ms": 0,
  // An idle controller writes and syncs an empty record all the same, twice a second by default. It
  // tells brokers how far behind they are, for which seconds are enough.
  "metadata.max.idle.interval.ms": 5_000,
  // A killed broker may come back under its number only when its last session is over (9 s by
  // default). With a shorter session, a machine that pauses for a moment would lose its only
  // broker.
  "broker.session.timeout.ms": 4_000,
  "broker.heartbeat.interval.ms": 1_000,
  "group.min.session.timeout.ms": 1_000,
  // The defaults reserve 128 MB for compacting, and 2 MB a fetcher for purgatories that a single
  // broker never fills.
  "log.cleaner.dedupe.buffer.size": 33_554_432,
  "controlled.shutdown.enable": true,
};

type Settings = Readonly<Record<string, string | number | boolean>>;

/** One broker, or a cluster of three. */
export type Brokers = 1 | 3;
const names: readonly BrokerName[] = ["kafka", "kafka-2", "kafka-3"];
const controllerOf = (name: BrokerName): string => (name === "kafka" ? "kafkaController" : `${name}-controller`);

/**
 * The other settings of a cluster: three copies of each record, acknowledged when two have it, so
 * that one broker may be missing.
 */
const clusterSettings: Settings = {
  "default.replication.factor": 3,
  "min.insync.replicas": 2,
  "offsets.topic.replication.factor": 3,
  "transaction.state.log.replication.factor": 3,
  "transaction.state.log.min.isr": 2,
  "share.coordinator.state.topic.replication.factor": 3,
  "share.coordinator.state.topic.min.isr": 2,
  // A broker that is back leads again within seconds; the default is five minutes.
  "leader.imbalance.check.interval.seconds": 5,
  "replica.lag.time.max.ms": 10_000,
};

interface Member {
  readonly place: Place;
  readonly name: BrokerName;
  readonly all: readonly BrokerName[];
}

/** All other settings equal those of brokers on loopback. */
const settings = ({ place, name, all }: Member, dataFolder: string): Settings => {
  const { ports, fronts, home } = place;
  const voters = all.map((voter, index) => `${index + 1}@127.0.0.1:${ports[controllerOf(voter)]}`);
  return {
    "process.roles": "broker,controller",
    "node.id": all.indexOf(name) + 1,
    "controller.quorum.voters": voters.join(","),
    listeners: `PLAINTEXT://127.0.0.1:${ports[name]},CONTROLLER://127.0.0.1:${ports[controllerOf(name)]}`,
    "advertised.listeners": `PLAINTEXT://127.0.0.1:${fronts[name] ?? ports[name]}`,
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "log.dirs": home.path(name, dataFolder),
    ...brokerSettings,
    ...(all.length > 1 && clusterSettings),
  };
};

const propertiesFile = (member: Member, dataFolder: string): string => {
  const file = member.place.home.path(member.name, `${dataFolder}.properties`);
  const lines = Object.entries(settings(member, dataFolder)).map(([key, value]) => `${key}=${value}`);
  writeFileSync(file, `${lines.join("\n")}\n`);
  return file;
};

const jvm = (place: Place): string[] => [
  "-Djava.awt.headless=true",
  "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
  "-Dorg.slf4j.simpleLogger.showDateTime=true",
  "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
  "-Dorg.slf4j.simpleLogger.showThreadName=false",
  // Sorted, because a JVM reads classes from an archive only if the class path is the same.
  "-cp",
  readdirSync(place.home.jars)
    .filter((name) => name.endsWith(".jar"))
    .sort()
    .map((name) => join(place.home.jars, name))
    .join(delimiter),
];

/**
 * Formats into a folder beside the final one and renames it, so that a crash leaves no
 * half-formatted data.
 */
async function format(member: Member): Promise<void> {
  const { place, name } = member;
  rmSync(place.home.path(name, "fresh"), { recursive: true, force: true });
  const file = propertiesFile(member, "fresh");
  const args = [
    "-Xmx256m",
    "-XX:TieredStopAtLevel=1",
    ...jvm(place),
    "kafka.tools.StorageTool",
    "format",
    "--cluster-id",
    CLUSTER_ID,
    "--config",
    file,
  ];
  await promisify(execFile)(java(place), args);
  renameSync(place.home.path(name, "fresh"), place.home.path(name, "data"));
}

/** Data that this broker must not touch; undefined: it may begin with them, or there are none. */
const dataFault = ({ place, name, all }: Member): string | undefined => {
  const data = place.home.path(name, "data");
  if (!existsSync(data)) return undefined;
  if (!existsSync(join(data, "meta.properties")))
    return `${data} holds no complete Kafka data; remove that folder to start with an empty log.`;
  const of = (key: string): string | undefined =>
    new RegExp(`^${key}=(.*)$`, "m").exec(readFileSync(join(data, "meta.properties"), "utf8"))?.[1]?.trim();
  const [cluster, node] = [of("cluster.id"), of("node.id")];
  return cluster === CLUSTER_ID && node === String(all.indexOf(name) + 1)
    ? undefined
    : `${data} is of another log (cluster ${cluster}, broker ${node}); move it away to start with an empty one.`;
};

/**
 * Asks for the API versions, which a broker answers once it serves requests. The request is 4
 * numbers and an empty name, so no client is needed.
 */
export const askKafka = (host: string, port: number): Promise<void> =>
  new Promise((resolve, reject) => {
    const request = Buffer.alloc(14);
    request.writeInt32BE(10, 0);
    request.writeInt16BE(18, 4);
    request.writeInt16BE(0, 6);
    request.writeInt32BE(1, 8);
    request.writeInt16BE(-1, 12);
    const socket = connect({ port, host, timeout: 1_000 }, () => socket.write(request));
    socket.once("data", (answer) => {
      socket.destroy();
      if (answer.length >= 10 && answer.readInt16BE(8) === 0) resolve();
      else reject(new Error("the broker refused the question for its versions"));
    });
    socket.once("timeout", () => socket.destroy(new Error("no answer within a second")));
    socket.once("error", reject);
    socket.once("close", () => reject(new Error("the broker closed the connection")));
  });

const broker = (name: BrokerName, all: readonly BrokerName[]): Service => {
  const isFirst = name === all[0];
  return {
    name,
    outside: "KAFKA_BROKERS",
    // A service that needs the log waits for the first broker, and so for all.
    after: isFirst ? all.slice(1) : [],
    ports: [name, controllerOf(name)],
    install: ({ home }) => fetchJars(home),
    faults: (place) => {
      const fault = dataFault({ place, name, all });
      const cure = "install a JDK 17 or newer (apt install openjdk-17-jdk-headless, brew install openjdk@17)";
      return [
        ...(hasJava(place) ? [] : [`Java was not found: ${cure}, or set KAFKA_BROKERS to a running Kafka.`]),
        ...(fault === undefined ? [] : [fault]),
      ];
    },
    version: ({ home }) =>
      existsSync(home.jars)
        ? readdirSync(home.jars).flatMap((file) => /^kafka_[\d.]+-([\d.]+)\.jar$/.exec(file)?.[1] ?? [])[0]
        : undefined,
    prepare: async (place) => {
      // The records hold what people sent. An older home has this folder with the rights of all.
      mkdirSync(place.home.path(name), { recursive: true, mode: 0o700 });
      chmodSync(place.home.path(name), 0o700);
      const fault = dataFault({ place, name, all });
      if (fault !== undefined) throw new Error(fault);
      if (!existsSync(place.home.path(name, "data"))) await format({ place, name, all });
      propertiesFile({ place, name, all }, "data");
    },
    command: (place) => ({
      file: java(place),
      args: [
        "-Xms256m",
        all.length === 1 ? "-Xmx1g" : "-Xmx512m",
        "-XX:MaxGCPauseMillis=50",
        // The broker is ready in half the time and loses nothing later: classes are shared, and
        // compiling continues in the background.
        "-Xshare:auto",
        ...jvm(place),
        "kafka.Kafka",
        place.home.path(name, "data.properties"),
      ],
      cwd: place.home.path(name),
    }),
    healthy: ({ ports }) => askKafka("127.0.0.1", ports[name]!),
    stopSignal: "SIGTERM",
    variables: ({ ports }) => (isFirst ? { KAFKA_BROKERS: all.map((one) => `127.0.0.1:${ports[one]}`).join(",") } : {}),
    address: (variables) => ({ brokers: variables.KAFKA_BROKERS! }),
  };
};

/** The first broker has the name of a single one. */
export const kafkaBrokers = (count: Brokers): readonly Service[] => {
  const all = names.slice(0, count);
  return all.map((name) => broker(name, all));
};
