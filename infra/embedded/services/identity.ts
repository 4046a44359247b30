// The identity provider for a laptop: demo users, one for each role, on loopback only.
import { compiledServer } from "../compiled-server.ts";
import type { Service } from "../service.ts";
import { answersHttp } from "./http-health.ts";

export const identity: Service = {
  name: "identity",
  outside: "OIDC_ISSUER",
  after: [],
  ports: ["identity"],
  install: async ({ home }) => {
    compiledServer(home);
  },
  prepare: async () => undefined,
  command: ({ home, ports, secrets }) => ({
    file: process.execPath,
    args: ["--max-old-space-size=128", compiledServer(home), "identity"],
    env: { PORT: String(ports.identity), DATA_FOLDER: home.path("identity"), LOGIN_SECRET: secrets.login },
    cwd: home.folder,
  }),
  healthy: ({ ports }) => answersHttp(`http://127.0.0.1:${ports.identity}/.well-known/openid-configuration`),
  stopSignal: "SIGTERM",
  variables: ({ ports }) => ({ OIDC_ISSUER: `http://127.0.0.1:${ports.identity}`, OIDC_AUDIENCE: "urn:tributary:api" }),
  address: (variables) => ({ url: variables.OIDC_ISSUER! }),
};
