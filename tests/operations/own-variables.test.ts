// Each process gets the variables that its app reads, and of the machine what Node needs: no
// password of another app, none of the shell.
import { describe, expect, test } from "vitest";
import { readConfig as api } from "../../apps/api/config.ts";
import { readConfig as ingest } from "../../apps/ingest/config.ts";
import { readConfig as keeper } from "../../apps/keeper/config.ts";
import { readConfig as links } from "../../apps/links/config.ts";
import { readConfig as pixel } from "../../apps/pixel/config.ts";
import { readConfig as upload } from "../../apps/upload/config.ts";
import { readConfig as worker } from "../../apps/worker/config.ts";
import { chargeOfApp } from "../../infra/embedded/app.ts";
import { stackConfig } from "../../infra/embedded/config.ts";
import { openHome } from "../../infra/embedded/home.ts";
import type { Place } from "../../infra/embedded/service.ts";
import { variables } from "../../infra/runtime/environment.ts";
import { apps, type ProductApp } from "../../modules/running/installation/product.ts";

type Variables = Readonly<Record<string, string>>;
const configs: Readonly<Record<string, (env: Variables) => object>> = {
  ...{ api, ingest, keeper, links, pixel, upload, worker },
};

/** Every variable that there is, each with a value that its form allows. */
const every: Variables = {
  TRIBUTARY_HOME: "/srv/tributary",
  TRIBUTARY_SECRET: "pL3vQ9xT7mK1wZ8rN4sB6yD2hJ5cF0gA",
  KAFKA_BROKERS: "127.0.0.1:9092",
  KAFKA_TOPIC_PREFIX: "p.",
  SCHEMA_REGISTRY_URL: "http://127.0.0.1:8081",
  REDIS_URL: "redis://app:secret@127.0.0.1:6379",
  POSTGRES_URL: "postgres://app:secret@127.0.0.1:5432/tributary",
  POSTGRES_ADMIN_URL: "postgres://owner:secret@127.0.0.1:5432/tributary",
  CLICKHOUSE_URL: "http://app:secret@127.0.0.1:8123/tributary",
  OBJECT_STORE_URL: "s3://key:secret@127.0.0.1/bucket",
  SMTP_URL: "smtp://user:secret@127.0.0.1/?to=a@x.example",
  MERCADOPAGO_URL: "http://127.0.0.1:9999",
  RESTART_COMMAND: "restart {service}",
  OIDC_ISSUER: "http://127.0.0.1:9100",
  PORTAL_URL: "http://127.0.0.1:9200",
  DOCS_URL: "https://docs.example/tributary",
  TRACKING_URL: "https://go.example",
  PIXEL_URL: "https://px.example",
  INGEST_URL: "https://in.example",
  UPLOAD_URL: "https://up.example",
  HOST: "127.0.0.1",
  PORT: "8080",
  OPS_PORT: "9080",
  INSTANCE_NAME: "name",
  TRUSTED_PROXIES: "loopback",
  TLS_CERT_FILE: "/cert",
  TLS_KEY_FILE: "/key",
  GEOIP_CITY_DB: "/city",
  GEOIP_ASN_DB: "/asn",
  NETWORKS_FILE: "/networks",
  LOG_LEVEL: "info",
};
const machine: Variables = { PATH: "/bin", HOME: "/srv", TZ: "UTC", NODE_EXTRA_CA_CERTS: "/ca.pem" };
const strange: Variables = { AWS_SECRET_ACCESS_KEY: "secret", GITHUB_TOKEN: "secret", POSTGRES_PASSWORD: "secret" };

const given = (app: ProductApp) => {
  const config = stackConfig({ ...every, ...machine, ...strange });
  const ports = { [app.name]: 1, [`${app.name}-ops`]: 2 };
  const charge = chargeOfApp(app, { home: openHome() } as Place, ports, { ...every }, config);
  return Object.keys(charge.env());
};
const readBy = ({ module }: ProductApp): readonly string[] =>
  Object.keys(configs[/^apps\/(\w+)\//.exec(module)![1]!]!(every));

test("the values of this test are all variables that there are", () =>
  expect(Object.keys(every).sort()).toEqual(Object.keys(variables).sort()));

describe.each(apps.map((app) => [app.name, app] as const))("%s", (_name, app) => {
  test("gets from `npm start` what it reads, and the variables of the machine", () =>
    expect(given(app).sort()).toEqual([...readBy(app), ...Object.keys(machine)].sort()));
});

test("what only some apps read is with those alone", () => {
  const holders = (variable: string) => apps.filter((app) => given(app).includes(variable)).map(({ name }) => name);
  expect(holders("POSTGRES_ADMIN_URL")).toEqual([]);
  expect(holders("SMTP_URL")).toEqual(["api", "keeper"]);
  expect(holders("DOCS_URL")).toEqual(["api", "keeper"]);
  expect(holders("RESTART_COMMAND")).toEqual(["keeper"]);
  const ofStores = ["ingest", "ingest-standby", "worker-chain", "worker-money", "api", "keeper"];
  for (const variable of ["REDIS_URL", "CLICKHOUSE_URL"]) expect(holders(variable), variable).toEqual(ofStores);
});
