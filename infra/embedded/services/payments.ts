// The stand-in for the API of Mercado Pago: its notices work on a laptop without an account.
import { compiledServer } from "../compiled-server.ts";
import type { Service } from "../service.ts";
import { answersHttp } from "./http-health.ts";

export const payments: Service = {
  name: "payments",
  outside: "MERCADOPAGO_URL",
  after: [],
  ports: ["payments"],
  install: async ({ home }) => {
    compiledServer(home);
  },
  prepare: async () => undefined,
  command: ({ home, ports }) => ({
    file: process.execPath,
    args: ["--max-old-space-size=32", compiledServer(home), "payments"],
    env: { PORT: String(ports.payments) },
    cwd: home.folder,
  }),
  healthy: ({ ports }) => answersHttp(`http://127.0.0.1:${ports.payments}/health`),
  stopSignal: "SIGTERM",
  variables: ({ ports }) => ({ MERCADOPAGO_URL: `http://127.0.0.1:${ports.payments}` }),
  address: (variables) => ({ url: variables.MERCADOPAGO_URL! }),
};
