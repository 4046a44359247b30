// ClickHouse: the engine of the npm package `chdb` behind our own HTTP front, so that clients talk
// to it like to a server.
import { chmodSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { compiledServer } from "../compiled-server.ts";
import type { Place, Service } from "../service.ts";
import { answersHttp } from "./http-health.ts";
import { CLICKHOUSE_APP, CLICKHOUSE_OWNER } from "./store-users.ts";

const urlOf = ({ ports }: Place, user: string, password: string): string =>
  `http://${user}:${password}@127.0.0.1:${ports.clickhouse}/tributary`;

export const clickhouse: Service = {
  name: "clickhouse",
  outside: "CLICKHOUSE_URL",
  after: [],
  ports: ["clickhouse"],
  install: async ({ home }) => {
    compiledServer(home);
    try {
      createRequire(import.meta.url).resolve("chdb");
    } catch (error) {
      throw new Error(
        `No ClickHouse is packed for ${process.platform} ${process.arch}; set CLICKHOUSE_URL to a running one.`,
        {
          cause: error,
        },
      );
    }
  },
  version: () => (createRequire(import.meta.url)("chdb/package.json") as { version: string }).version,
  prepare: async ({ home }) => {
    mkdirSync(home.path("clickhouse"), { recursive: true, mode: 0o700 });
    // Former releases left it readable.
    chmodSync(home.path("clickhouse"), 0o700);
  },
  command: ({ home, ports, secrets }) => ({
    file: process.execPath,
    args: [compiledServer(home), "clickhouse"],
    // A thread for each lane, and two for the files and names that Node itself asks for.
    env: {
      PORT: String(ports.clickhouse),
      DATA_FOLDER: home.path("clickhouse"),
      OWNER_PASSWORD: secrets.clickhouseOwner,
      APP_PASSWORD: secrets.clickhouseApp,
      UV_THREADPOOL_SIZE: "9",
    },
    cwd: home.path("clickhouse"),
  }),
  healthy: ({ ports }) => answersHttp(`http://127.0.0.1:${ports.clickhouse}/ping`),
  stopSignal: "SIGTERM",
  variables: (place) => ({ CLICKHOUSE_URL: urlOf(place, CLICKHOUSE_OWNER, place.secrets.clickhouseOwner) }),
  appVariables: (place) => ({ CLICKHOUSE_URL: urlOf(place, CLICKHOUSE_APP, place.secrets.clickhouseApp) }),
  address: (variables) => ({ url: variables.CLICKHOUSE_URL! }),
};
