// Runs imports one after the other while their leases last.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { hit } from "#failpoint";
import { ObjectMissing } from "../../../../infra/objects/objects.ts";
import { classify, Unavailable } from "../../../../infra/runtime/errors.ts";
import type { Log } from "../../../../infra/runtime/log.ts";
import type { Resource } from "../../../../infra/runtime/scope.ts";
import { BadFile } from "../csv/csv-head.ts";
import { beat, failImport, giveBack, type TakenImport, takeImport } from "../imports.ts";
import { removeLeftOver, removePieces } from "./clean-up.ts";
import { type ImportPorts, runImport } from "./run-import.ts";

export interface ImporterPorts extends ImportPorts {
  readonly log: Pick<Log, "info" | "warn" | "error">;
}

const LOOK_MS = 500;
/** The pause after an outage of a store. */
const PAUSE_MS = 2_000;
const BEAT_MS = 60_000;
const SWEEP_MS = 60_000;
const MOST_LETTERS = 500;

/** `stop` leaves the current import to the next process. */
export const openImporter = (ports: ImporterPorts): Resource<null> => {
  const owner = randomUUID();
  const closing = new AbortController();
  const pause = (ms: number) => sleep(ms, undefined, { signal: closing.signal }).catch(() => undefined);
  const work = async (): Promise<void> => {
    let sweptAt = Number.NEGATIVE_INFINITY;
    while (!closing.signal.aborted)
      try {
        if (performance.now() - sweptAt > SWEEP_MS) {
          sweptAt = performance.now();
          await removeLeftOver(ports);
        }
        const taken = await takeImport(ports.pool, owner);
        if (taken === undefined) await pause(LOOK_MS);
        else if (!(await workOn(ports, taken, () => closing.signal.aborted))) await pause(PAUSE_MS);
      } catch (error) {
        ports.log.warn("imports.not_looked_for", { error });
        await pause(PAUSE_MS);
      }
  };
  const working = work();
  return {
    value: null,
    stop: async () => {
      closing.abort();
      await working;
    },
  };
};

/** Returns false if a store is away; the import then waits. */
const workOn = async (ports: ImporterPorts, taken: TakenImport, isClosing: () => boolean): Promise<boolean> => {
  const { pool, objects, log } = ports;
  const fields = { import_id: taken.import_id, client_id: taken.client_id };
  hit("import-taken");
  const beating = setInterval(() => void beat(pool, taken).catch(() => undefined), BEAT_MS);
  try {
    const standing = await runImport(ports, taken, isClosing);
    if (standing === "goes on" && isClosing()) return await giveBack(pool, taken);
    if (standing !== "ended") return true;
    hit("import-ended");
    log.info("import.ended", fields);
    await removePieces({ pool, objects }, taken.import_id);
    return true;
  } catch (error) {
    const isLasting = error instanceof BadFile || error instanceof ObjectMissing;
    if (!isLasting && (error instanceof Unavailable || classify(error) === "transient")) {
      log.warn("import.given_back", { ...fields, error });
      await giveBack(pool, taken).catch(() => undefined);
      return false;
    }
    if (!(error instanceof BadFile)) log.error("import.failed", { ...fields, error });
    if (await failImport(pool, taken, (error as Error).message.slice(0, MOST_LETTERS)))
      await removePieces({ pool, objects }, taken.import_id);
    return true;
  } finally {
    clearInterval(beating);
  }
};
