// The control door of an embedded stack: a loopback port through which the keeper and fault tests
// restart, stop, start and signal processes by name.
import { randomBytes } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { constants } from "node:os";
import { isSameSecret, refusalOf } from "../runtime/same-machine.ts";
import type { ControlAddress, ProcessStatus } from "../runtime/stack-control.ts";

/**
 * The operations of the supervisor that the door offers; errors are one sentence, shown to the
 * caller.
 */
export interface SupervisorControls {
  readonly restart: (name: string) => Promise<void>;
  readonly signal: (name: string, signal: NodeJS.Signals) => boolean;
  readonly stop: (name: string) => Promise<void>;
  readonly start: (name: string) => Promise<void>;
  readonly status: () => readonly ProcessStatus[];
}

export interface Door extends ControlAddress {
  readonly close: () => Promise<void>;
}

const ROUTE = /^\/processes\/([A-Za-z0-9._-]{1,64})\/(restart|signal|stop|start)$/;

/**
 * Listens on any free loopback port. The token is new at each start: who can read `run.json`
 * (mode 0600) may use the door.
 */
export async function openDoor(controlled: SupervisorControls): Promise<Door> {
  const token = randomBytes(32).toString("base64url");
  const server = createServer((request, response) => {
    const answer = (status: number, content: unknown) =>
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(content));
    answerOf(controlled, token, request).then(
      ([status, content]) => answer(status, content),
      (error: unknown) => answer(500, { error: (error as Error).message }),
    );
  });
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve));
  // The stack ends when its work ends; an open door alone keeps no process alive.
  server.unref();
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    token,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function answerOf(
  controlled: SupervisorControls,
  token: string,
  request: IncomingMessage,
): Promise<readonly [number, unknown]> {
  const refusal = refusalOf(request.headers);
  if (refusal !== undefined) return [403, { error: refusal }];
  if (!isSameSecret(request.headers.authorization ?? "", `Bearer ${token}`))
    return [401, { error: "the token of run.json is needed" }];
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://door");
  if (pathname === "/processes" && request.method === "GET") return [200, controlled.status()];
  const [, name, verb] = ROUTE.exec(pathname) ?? [];
  if (name === undefined || request.method !== "POST") return [404, { error: "there is nothing here" }];
  if (verb !== "signal") {
    await controlled[verb as "restart" | "stop" | "start"](name);
    return [200, { done: true }];
  }
  const signal = searchParams.get("signal") ?? "";
  if (!(signal in constants.signals)) return [400, { error: `${signal} is no signal of this system` }];
  return [200, { sent: controlled.signal(name, signal as NodeJS.Signals) }];
}
