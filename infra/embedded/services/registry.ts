// The schema registry: a process of ours whose memory is the topic `_schemas`.
import { compiledServer } from "../compiled-server.ts";
import type { Service } from "../service.ts";
import { answersHttp } from "./http-health.ts";

export const registry: Service = {
  name: "registry",
  outside: "SCHEMA_REGISTRY_URL",
  after: ["kafka"],
  ports: ["registry"],
  install: async ({ home }) => {
    compiledServer(home);
  },
  prepare: async () => undefined,
  command: ({ home, ports, env }) => ({
    file: process.execPath,
    args: ["--max-old-space-size=128", compiledServer(home), "registry"],
    env: { PORT: String(ports.registry), KAFKA_BROKERS: env.KAFKA_BROKERS! },
    cwd: home.folder,
  }),
  healthy: ({ ports }) => answersHttp(`http://127.0.0.1:${ports.registry}/subjects`),
  stopSignal: "SIGTERM",
  variables: ({ ports }) => ({ SCHEMA_REGISTRY_URL: `http://127.0.0.1:${ports.registry}` }),
  address: (variables) => ({ url: variables.SCHEMA_REGISTRY_URL! }),
};
