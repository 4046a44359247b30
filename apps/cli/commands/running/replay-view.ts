// Plays one recorded visit in a browser of this machine for as long as the command runs.
import { randomBytes, randomUUID } from "node:crypto";
import type { Command } from "commander";
import type pg from "pg";
import { openClickhouse } from "../../../../infra/clickhouse/client.ts";
import { openObjects } from "../../../../infra/objects/open.ts";
import { UsageError } from "../../../../infra/runtime/command-errors.ts";
import { openLog } from "../../../../infra/runtime/log.ts";
import { print, tell } from "../../../../infra/runtime/output.ts";
import { actorOf } from "../../../../modules/base/operations/operations.ts";
import {
  clientsOfRecording,
  type NotShown,
  type OpenedRecording,
  openRecording,
} from "../../../../modules/intake/recordings/recording-reads.ts";
import { latestMasks } from "../../../../modules/privacy/masks.ts";
import { addresses, keyring, objectStoreUrl } from "../../config.ts";
import { clientOf, withPool } from "../../pool.ts";
import { serveRecording } from "./recording-page.ts";

const ASKED_MS = 10_000;
const unknown = (session: string): string =>
  `there is no recording of the visit ${session}: it was not recorded, or more than 90 days ago`;
const REASONS: Readonly<Record<NotShown, (session: string) => string>> = {
  unknown,
  erased: (session) => `the visitor of ${session} was erased, and the recording with it`,
  withdrawn: (session) =>
    `the visitor of ${session} does not agree to be recorded any more; it is shown again if that changes`,
};

const clientIdOf = async (pool: pg.Pool, session: string, named: string | undefined): Promise<number> => {
  if (named !== undefined) return (await clientOf(pool, named)).client_id;
  const [first, ...more] = await clientsOfRecording(pool, session);
  if (first === undefined) throw new UsageError(unknown(session));
  if (more.length > 0)
    throw new UsageError(
      `several clients have a visit ${session}; add --client with one of ${[first, ...more].join(", ")}`,
    );
  return first;
};

const opened = async (session: string, named: string | undefined): Promise<OpenedRecording> => {
  const clickhouse = openClickhouse(addresses().clickhouseUrl, { name: "tributary-ops", timeoutMs: ASKED_MS });
  const objects = openObjects(objectStoreUrl());
  try {
    return await withPool(async (pool) => {
      const clientId = await clientIdOf(pool, session, named);
      const latestMask = async (client: number, device: string): Promise<number | undefined> =>
        (await latestMasks(clickhouse, client, [device])).get(device);
      const by = { actor: actorOf(), role: "operator", request_id: `cli-${randomUUID()}`, ip: null };
      const ports = { pool, objects, keyring: keyring(), latestMask };
      const found = await openRecording(ports, { clientId, sessionId: session }, by);
      if (typeof found === "string") throw new UsageError(REASONS[found](session));
      return found;
    });
  } finally {
    await Promise.all([clickhouse.close(), objects.close()]);
  }
};

const view = async (session: string, { client }: { readonly client?: string }): Promise<void> => {
  const recording = await opened(session, client);
  if (recording.pages.length === 0) throw new UsageError(`nothing of the visit ${session} was stored`);
  const token = randomBytes(16).toString("hex");
  const server = await serveRecording(recording, token, openLog({ app: "cli", level: "silent" }));
  print(`http://127.0.0.1:${server.port}/${token}-view`);
  tell("Open it in a browser of this machine; it is served until you press Ctrl-C.");
  await new Promise<void>((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => resolve());
  });
  await server.close();
};

export const replayViewCommand = (program: Command): void => {
  program
    .command("replay-view <session>")
    .description("plays one recorded visit back in a browser of this machine; each look is audited")
    .option("--client <slug or id>", "whose visit, where several clients have one of this name")
    .addHelpText("before", "Examples:\n  $ tributary replay-view 9f86d081884c7d659a2feaa0c55ad015\n")
    .action(view);
};
