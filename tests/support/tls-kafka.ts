// A real broker with four listeners: plain, TLS with a password, TLS with a client certificate, and
// the controller's.
import { execFile, spawn } from "node:child_process";
import { mkdirSync, openSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { openHome } from "../../infra/embedded/home.ts";
import { fetchJars } from "../../infra/embedded/services/jars.ts";
import { askKafka, brokerSettings } from "../../infra/embedded/services/kafka.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import type { Authority, Certificate } from "./certificates.ts";
import { freePort } from "./ingest.ts";

export interface TlsKafka {
  /** Ports on the loopback. The broker advertises the TLS ones as localhost. */
  readonly plain: number;
  readonly password: number;
  readonly mutual: number;
  readonly stop: () => Promise<void>;
}

/** `user` may log in with PLAIN or SCRAM-SHA-512. Files and data are in `folder`. */
export const startTlsKafka = async (
  folder: string,
  authority: Authority,
  own: Certificate,
  user: { readonly name: string; readonly password: string },
): Promise<TlsKafka> => {
  const home = openHome(folder);
  await fetchJars(home);
  const [plain, password, mutual, controller] = [
    await freePort(),
    await freePort(),
    await freePort(),
    await freePort(),
  ];
  const at = (name: string) => join(folder, "tls-kafka", name);
  mkdirSync(at("data"), { recursive: true });
  writeFileSync(at("own.pem"), own.key + own.cert, { mode: 0o600 });
  writeFileSync(at("authority.pem"), authority.cert);
  const tls = (door: string) => ({
    [`listener.name.${door}.ssl.keystore.type`]: "PEM",
    [`listener.name.${door}.ssl.keystore.location`]: at("own.pem"),
    [`listener.name.${door}.ssl.truststore.type`]: "PEM",
    [`listener.name.${door}.ssl.truststore.location`]: at("authority.pem"),
    [`listener.name.${door}.ssl.enabled.protocols`]: "TLSv1.3",
  });
  const login = "org.apache.kafka.common.security";
  const settings = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.quorum.voters": `1@127.0.0.1:${controller}`,
    listeners:
      `PLAIN://127.0.0.1:${plain},PASSWORD://127.0.0.1:${password},` +
      `MUTUAL://127.0.0.1:${mutual},CONTROLLER://127.0.0.1:${controller}`,
    "advertised.listeners": `PLAIN://127.0.0.1:${plain},PASSWORD://localhost:${password},MUTUAL://localhost:${mutual}`,
    "listener.security.protocol.map": "PLAIN:PLAINTEXT,PASSWORD:SASL_SSL,MUTUAL:SSL,CONTROLLER:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAIN",
    "log.dirs": at("data"),
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "listener.name.password.plain.sasl.jaas.config":
      `${login}.plain.PlainLoginModule required ` + `user_${user.name}="${user.password}";`,
    "listener.name.password.scram-sha-512.sasl.jaas.config": `${login}.scram.ScramLoginModule required;`,
    ...tls("password"),
    ...tls("mutual"),
    "listener.name.mutual.ssl.client.auth": "required",
    ...brokerSettings,
  };
  const lines = Object.entries(settings).map(([key, value]) => `${key}=${value}`);
  writeFileSync(at("properties"), `${lines.join("\n")}\n`);
  const java = process.env.JAVA_HOME ? join(process.env.JAVA_HOME, "bin", "java") : "java";
  const jvm = ["-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", join(home.jars, "*")];
  const scram = `SCRAM-SHA-512=[name=${user.name},password=${user.password}]`;
  const id = "dHJpYnV0YXJ5LXRscy10ZQ";
  await promisify(execFile)(java, [
    ...jvm,
    "kafka.tools.StorageTool",
    "format",
    ...["--cluster-id", id, "--config", at("properties"), "--add-scram", scram],
  ]);
  const log = openSync(at("log"), "a");
  const child = spawn(java, [...jvm, "kafka.Kafka", at("properties")], { stdio: ["ignore", log, log] });
  const gone = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const stop = async (): Promise<void> => {
    child.kill("SIGTERM");
    const late = setTimeout(() => child.kill("SIGKILL"), 10_000);
    await gone;
    clearTimeout(late);
  };
  try {
    await until("the broker answers", 60_000, () => askKafka("127.0.0.1", plain));
  } catch (error) {
    await stop();
    throw error;
  }
  return { plain, password, mutual, stop };
};
