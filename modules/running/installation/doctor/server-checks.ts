// Checks that Kafka, ClickHouse, Redis and the schema registry answer, and are new enough.
import { askKafka } from "../../../../infra/embedded/services/kafka.ts";
import { askRedis } from "../../../../infra/embedded/services/redis.ts";
import { bad, type Finding, good } from "./finding.ts";

export async function checkClickhouse(url: string): Promise<Finding> {
  const target = new URL(url);
  const headers: Record<string, string> = {};
  if (target.username !== "") headers["x-clickhouse-user"] = decodeURIComponent(target.username);
  if (target.password !== "") headers["x-clickhouse-key"] = decodeURIComponent(target.password);
  const answer = await fetch(`${target.origin}/?default_format=TabSeparated`, {
    method: "POST",
    body: "SELECT version()",
    headers,
    signal: AbortSignal.timeout(2_000),
  });
  const version = (await answer.text()).trim();
  if (!answer.ok) return bad(version.slice(0, 200), "see that the user and the password in CLICKHOUSE_URL are right");
  return Number.parseInt(version, 10) >= 24
    ? good(`ClickHouse ${version}`)
    : bad(`ClickHouse ${version}`, "use ClickHouse 24 or newer");
}

export async function checkKafka(brokers: string): Promise<Finding> {
  const [, host, port] = /^([\w.-]+):(\d+)/.exec(brokers) ?? [];
  if (host === undefined) return good("its address is known; only a broker without TLS is asked");
  await askKafka(host, Number(port));
  return good(`${host}:${port} answers`);
}

export async function checkRedis(url: string): Promise<Finding> {
  const target = new URL(url);
  if (target.protocol !== "redis:") return good("its address is known; only a server without TLS is asked");
  const info = await askRedis(url, "INFO server");
  const version = /(?:valkey|redis)_version:(\S+)/.exec(info)?.[1];
  if (version === undefined)
    return bad(info.trim().slice(0, 200), "see that the user and the password in REDIS_URL are right");
  return Number.parseInt(version, 10) >= 6
    ? good(`Redis ${version}`)
    : bad(`Redis ${version}`, "use Redis 6.2 or newer");
}

export async function checkRegistry(url: string): Promise<Finding> {
  const target = new URL(url);
  const login = `${decodeURIComponent(target.username)}:${decodeURIComponent(target.password)}`;
  const headers = login === ":" ? {} : { authorization: `Basic ${Buffer.from(login).toString("base64")}` };
  // fetch refuses an address with credentials, and its error would repeat them.
  [target.username, target.password] = ["", ""];
  const answer = await fetch(`${target.href.replace(/\/$/, "")}/subjects`, {
    headers,
    signal: AbortSignal.timeout(2_000),
  });
  if (!answer.ok) return bad(`answered ${answer.status}`, "see that SCHEMA_REGISTRY_URL is right");
  return good(`${((await answer.json()) as readonly string[]).length} subjects`);
}
