// Runs one embedded server in a process of its own: `node dist/apps/stack/serve.js clickhouse|registry|identity`.
import { serveClickhouse } from "./clickhouse-front.ts";
import { serverConfig } from "./config.ts";
import { serveIdentity } from "./identity.ts";
import { serveRegistry } from "./registry.ts";

type Server = { readonly close: () => Promise<void> };

const config = serverConfig();
const need = (name: "DATA_FOLDER" | "KAFKA_BROKERS" | "LOGIN_SECRET"): string => {
  const value = config[name];
  if (value === undefined) throw new Error(`${name} is missing.`);
  return value;
};
const servers: Readonly<Record<string, () => Promise<Server>>> = {
  clickhouse: () => serveClickhouse({ port: config.PORT, folder: need("DATA_FOLDER") }),
  registry: () => serveRegistry({ port: config.PORT, brokers: need("KAFKA_BROKERS") }),
  identity: () => serveIdentity({ port: config.PORT, folder: need("DATA_FOLDER"), loginSecret: need("LOGIN_SECRET") }),
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
