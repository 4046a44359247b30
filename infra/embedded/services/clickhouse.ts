// ClickHouse: the engine of the npm package `chdb` behind our own HTTP front, so that clients speak
// to it as to a server.
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { compiledServer } from "../compiled.ts";
import { answersHttp } from "../http-health.ts";
import type { Service } from "../service.ts";

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
  prepare: async ({ home }) => {
    mkdirSync(home.path("clickhouse"), { recursive: true, mode: 0o700 });
  },
  command: ({ home, ports }) => ({
    file: process.execPath,
    args: [compiledServer(home), "clickhouse"],
    // A thread for each lane, and two for the files and names that Node itself asks for.
    env: { PORT: String(ports.clickhouse), DATA_FOLDER: home.path("clickhouse"), UV_THREADPOOL_SIZE: "8" },
    cwd: home.path("clickhouse"),
  }),
  healthy: ({ ports }) => answersHttp(`http://127.0.0.1:${ports.clickhouse}/ping`),
  stopSignal: "SIGTERM",
  variables: ({ ports }) => ({ CLICKHOUSE_URL: `http://127.0.0.1:${ports.clickhouse}/tributary` }),
  address: (variables) => ({ url: variables.CLICKHOUSE_URL! }),
};
