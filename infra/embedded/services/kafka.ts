// Kafka 4.1 as broker and controller in one process, from the jars that Maven fetched.
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Place, Service } from "../service.ts";
import { fetchJars } from "./jars.ts";

// Any fixed value does: it keeps a broker from reading the data of another cluster, and there is
// one cluster a folder.
const CLUSTER_ID = "dHJpYnV0YXJ5LXN0YWNrMQ";

const java = ({ machine }: Place): string =>
  machine.javaHome === undefined ? "java" : join(machine.javaHome, "bin", "java");

/**
 * What does not depend on the machine. docker-compose.yml has the same settings; a test compares.
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
  // Room for the largest request, 100 messages of the largest size below being far beyond it.
  "socket.request.max.bytes": 104_857_600,
  "message.max.bytes": 16_777_216,
  "log.message.timestamp.type": "LogAppendTime",
  "log.segment.bytes": 134_217_728,
  // A topic says how long it is kept; nothing may vanish because a topic forgot to say so.
  "log.retention.ms": -1,
  "auto.create.topics.enable": false,
  "delete.topic.enable": true,
  "num.partitions": 12,
  "default.replication.factor": 1,
  "min.insync.replicas": 1,
  "offsets.topic.num.partitions": 4,
  "offsets.topic.replication.factor": 1,
  // Four years: a group that rests for months must not lose its place.
  "offsets.retention.minutes": 2_102_400,
  "transaction.state.log.num.partitions": 4,
  "transaction.state.log.replication.factor": 1,
  "transaction.state.log.min.isr": 1,
  "share.coordinator.state.topic.num.partitions": 1,
  "share.coordinator.state.topic.replication.factor": 1,
  "share.coordinator.state.topic.min.isr": 1,
  "group.initial.rebalance.delay.ms": 0,
  // A killed broker may come back under its number only when its last session is over (9 s by
  // default). Shorter, and a machine that stands still for a moment would lose its only broker.
  "broker.session.timeout.ms": 4_000,
  "broker.heartbeat.interval.ms": 1_000,
  "group.min.session.timeout.ms": 1_000,
  // The defaults reserve 128 MB for compacting and 2 MB a fetcher for purgatories that a single
  // broker never fills.
  "log.cleaner.dedupe.buffer.size": 33_554_432,
  "controlled.shutdown.enable": true,
};

/** The rest is what one loopback broker needs. */
const settings = ({ ports, fronts, home }: Place, dataFolder: string): Record<string, string | number | boolean> => ({
  "process.roles": "broker,controller",
  "node.id": 1,
  "controller.quorum.voters": `1@127.0.0.1:${ports.kafkaController}`,
  listeners: `PLAINTEXT://127.0.0.1:${ports.kafka},CONTROLLER://127.0.0.1:${ports.kafkaController}`,
  "advertised.listeners": `PLAINTEXT://127.0.0.1:${fronts.kafka ?? ports.kafka}`,
  "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
  "controller.listener.names": "CONTROLLER",
  "inter.broker.listener.name": "PLAINTEXT",
  "log.dirs": home.path("kafka", dataFolder),
  ...brokerSettings,
});

const propertiesFile = (place: Place, dataFolder: string): string => {
  const file = place.home.path("kafka", `${dataFolder}.properties`);
  const lines = Object.entries(settings(place, dataFolder)).map(([key, value]) => `${key}=${value}`);
  writeFileSync(file, `${lines.join("\n")}\n`);
  return file;
};

const jvm = (place: Place): string[] => [
  "-Djava.awt.headless=true",
  "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
  "-Dorg.slf4j.simpleLogger.showDateTime=true",
  "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
  "-Dorg.slf4j.simpleLogger.showThreadName=false",
  "-cp",
  join(place.home.jars, "*"),
];

/**
 * Formats into a folder beside the final one and renames it, so that a crash leaves no
 * half-formatted data.
 */
async function format(place: Place): Promise<void> {
  rmSync(place.home.path("kafka", "fresh"), { recursive: true, force: true });
  const file = propertiesFile(place, "fresh");
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
  renameSync(place.home.path("kafka", "fresh"), place.home.path("kafka", "data"));
}

/**
 * Asks for the API versions, which a broker answers once it serves requests; the request is 4
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

export const kafka: Service = {
  name: "kafka",
  outside: "KAFKA_BROKERS",
  after: [],
  ports: ["kafka", "kafkaController"],
  install: ({ home }) => fetchJars(home),
  prepare: async (place) => {
    mkdirSync(place.home.path("kafka"), { recursive: true });
    const data = place.home.path("kafka", "data");
    if (!existsSync(join(data, "meta.properties"))) {
      if (existsSync(data))
        throw new Error(`${data} holds no complete Kafka data; remove that folder to start with an empty log.`);
      await format(place);
    }
    propertiesFile(place, "data");
  },
  command: (place) => ({
    file: java(place),
    args: [
      "-Xms256m",
      "-Xmx1g",
      "-XX:+UseG1GC",
      "-XX:MaxGCPauseMillis=50",
      // The broker is ready in half the time and loses nothing later: classes are shared, and
      // compiling goes on in the background.
      "-Xshare:auto",
      ...jvm(place),
      "kafka.Kafka",
      place.home.path("kafka", "data.properties"),
    ],
    cwd: place.home.path("kafka"),
  }),
  healthy: ({ ports }) => askKafka("127.0.0.1", ports.kafka!),
  stopSignal: "SIGTERM",
  variables: ({ ports }) => ({ KAFKA_BROKERS: `127.0.0.1:${ports.kafka}` }),
  address: (variables) => ({ brokers: variables.KAFKA_BROKERS! }),
};
