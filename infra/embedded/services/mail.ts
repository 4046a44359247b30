// A mail server that stores its mails: alerts of a laptop can be read, and no mail leaves it.
import { connect } from "node:net";
import { compiledServer } from "../compiled-server.ts";
import type { Service } from "../service.ts";

export const mail: Service = {
  name: "mail",
  outside: "SMTP_URL",
  after: [],
  ports: ["mail"],
  install: async ({ home }) => {
    compiledServer(home);
  },
  prepare: async () => undefined,
  command: ({ home, ports }) => ({
    file: process.execPath,
    args: ["--max-old-space-size=32", compiledServer(home), "mail"],
    env: { PORT: String(ports.mail), DATA_FOLDER: home.path("mail") },
    cwd: home.folder,
  }),
  healthy: ({ ports }) => greets(ports.mail!),
  stopSignal: "SIGTERM",
  variables: ({ ports }) => ({
    SMTP_URL: `smtp://127.0.0.1:${ports.mail}/?from=tributary@demo.tributary.test&to=operations@demo.tributary.test`,
  }),
  address: (variables) => ({ url: variables.SMTP_URL! }),
};

/** Resolves when the server greets within a second. */
const greets = (port: number): Promise<void> =>
  new Promise((resolve, reject) => {
    const socket = connect({ port, host: "127.0.0.1", timeout: 1_000 });
    const end = (error?: Error): void => {
      socket.destroy();
      if (error === undefined) resolve();
      else reject(error);
    };
    socket.once("data", (greeting) =>
      end(greeting.toString().startsWith("220") ? undefined : new Error("the mail server does not greet")),
    );
    socket.once("timeout", () => end(new Error("the mail server did not greet within a second")));
    socket.once("error", end);
  });
