// Runs one embedded server in a separate process: `node dist/infra/embedded/servers/serve.js
// clickhouse|registry|identity|mail|payments`.
import { serverConfig } from "../config.ts";

type Server = { readonly close: () => Promise<void> };

const config = serverConfig();
const need = (name: "DATA_FOLDER" | "KAFKA_BROKERS" | "LOGIN_SECRET" | "OWNER_PASSWORD" | "APP_PASSWORD"): string => {
  const value = config[name];
  if (value === undefined) throw new Error(`${name} is missing.`);
  return value;
};
// Only the requested server is loaded, so that a process does not hold the code of all.
const servers: Readonly<Record<string, () => Promise<Server>>> = {
  clickhouse: async () =>
    (await import("./clickhouse-front.ts")).serveClickhouse({
      port: config.PORT,
      folder: need("DATA_FOLDER"),
      ownerPassword: need("OWNER_PASSWORD"),
      appPassword: need("APP_PASSWORD"),
    }),
  registry: async () =>
    (await import("./registry.ts")).serveRegistry({ port: config.PORT, brokers: need("KAFKA_BROKERS") }),
  identity: async () =>
    (await import("./identity.ts")).serveIdentity({
      port: config.PORT,
      host: config.HOST,
      folder: need("DATA_FOLDER"),
      loginSecret: need("LOGIN_SECRET"),
    }),
  mail: async () => (await import("./mail.ts")).serveMail({ port: config.PORT, folder: need("DATA_FOLDER") }),
  payments: async () => (await import("./payments.ts")).servePayments({ port: config.PORT }),
};
const name = process.argv[2] ?? "";
const open = servers[name];
if (open === undefined) throw new Error(`Which server? One of ${Object.keys(servers).join(", ")}.`);

const server = await open();
console.log(JSON.stringify({ event: "server.ready", server: name, port: config.PORT }));
let isClosing = false;
const close = (signal: NodeJS.Signals) => {
  if (isClosing) process.exit(1);
  isClosing = true;
  console.log(JSON.stringify({ event: "server.stopping", server: name, signal }));
  server.close().then(
    () => process.exit(0),
    (error: unknown) => {
      console.error(error);
      process.exit(1);
    },
  );
};
process.on("SIGTERM", close);
process.on("SIGINT", close);
