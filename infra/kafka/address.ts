// Reads the address of the log, with who we are to it.
import { readFileSync } from "node:fs";
import type { KafkaConfig } from "kafkajs";

export interface LogAddress {
  /**
   * `host:9092,host:9092`, or a URL:
   * `kafkas://user:password@host:9092,host:9092?sasl=scram-sha-512` (kafkas: TLS; sasl: plain,
   * scram-sha-256, scram-sha-512; ca, cert and key name PEM files: an authority that the machine
   * does not know, and who we are to a broker that asks for it).
   */
  readonly brokers: string;
  /** Certificates, where the URL's plain `kafkas:` is not enough. */
  readonly ssl?: NonNullable<KafkaConfig["ssl"]>;
}

const FORM =
  /^(?:(?<scheme>kafkas?):\/\/)?(?:(?<user>[^:@]+):(?<password>[^@]*)@)?(?<hosts>[^/?@]+)\/?(?:\?(?<query>.*))?$/;

/**
 * Reads the address; user and password may be percent-encoded. Throws on anything but the settings
 * named above.
 */
export const connectionOf = ({ brokers, ssl }: LogAddress): Pick<KafkaConfig, "brokers" | "ssl" | "sasl"> => {
  const { scheme, user, password, hosts, query } = FORM.exec(brokers)?.groups ?? {};
  const addresses = hosts?.split(",").map((host) => host.trim()) ?? [];
  if (addresses.length === 0 || addresses.some((address) => !/^(\[[0-9a-fA-F:]+\]|[^:\s]+):\d+$/.test(address)))
    throw new Error(
      "the address of Kafka is host:port,host:port or kafkas://user:password@host:port?sasl=scram-sha-512",
    );
  const mechanism = new URLSearchParams(query).get("sasl") ?? "plain";
  if (!["plain", "scram-sha-256", "scram-sha-512"].includes(mechanism))
    throw new Error(`Kafka: unknown sasl mechanism ${mechanism}`);
  const files = tlsFilesIn(new URLSearchParams(query));
  if (files !== undefined && scheme !== "kafkas")
    throw new Error("Kafka: ca, cert and key belong to an address that begins with kafkas://");
  const secure = ssl ?? (scheme === "kafkas" ? (files ?? true) : undefined);
  return {
    brokers: addresses,
    ...(secure === undefined ? {} : { ssl: secure }),
    ...(user === undefined
      ? {}
      : {
          sasl: {
            mechanism: mechanism as "plain",
            username: decodeURIComponent(user),
            password: decodeURIComponent(password ?? ""),
          },
        }),
  };
};

/** The contents of the PEM files that an address names. */
const tlsFilesIn = (query: URLSearchParams): NonNullable<KafkaConfig["ssl"]> | undefined => {
  const read = (name: string) => query.getAll(name).map((file) => readFileSync(file, "utf8"))[0];
  const [ca, cert, key] = [read("ca"), read("cert"), read("key")];
  if ((cert === undefined) !== (key === undefined)) throw new Error("Kafka: cert and key must be given together");
  if (ca === undefined && cert === undefined) return undefined;
  return { ...(ca !== undefined && { ca: [ca] }), ...(cert !== undefined && key !== undefined && { cert, key }) };
};
