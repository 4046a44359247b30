// A fixed selection of the guarantee suite (tools/chaos): real processes and servers are killed,
// cut off and emptied under load, and every law is checked on the data.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { randomFrom } from "../../infra/runtime/random.ts";
import { planFor } from "../../tools/chaos/schedule.ts";
import { openSession, type Session } from "../../tools/chaos/session.ts";
import { openStage, type Stage } from "../../tools/chaos/stage/stage.ts";
import { lineOf } from "../../tools/chaos/verdicts.ts";

const SEED = 5;
const home = mkdtempSync(join(tmpdir(), "tributary-suite-"));
const lines: string[] = [];
let stage: Stage;
let session: Session;
let number = 0;
beforeAll(async () => {
  const tell = (text: string) => void lines.push(`${new Date().toISOString().slice(11, 19)} ${text}`);
  stage = await openStage(home, { random: randomFrom(SEED), tell });
  session = await openSession(stage.target, SEED, true, tell);
}, 300_000);
afterAll(async () => {
  await session?.close();
  await stage?.close();
  rmSync(home, { recursive: true, force: true });
}, 120_000);

test.each([
  {
    what: "an edge killed right after its answers, a worker killed, and Redis emptied",
    faults: ["kill the edge after its answer", "kill worker-chain", "Redis emptied"],
    proves: [
      "C1",
      "C2",
      "C3",
      "C7",
      "C10",
      "C11",
      "R3",
      "R11",
      "M1",
      "M3",
      "M7",
      "M10",
      "M11",
      "I2",
      "I5",
      "I6",
      "L3",
      "T1",
    ],
  },
  {
    what: "stages that die at a step of the runner while the broker is killed",
    faults: ["a stage dies at a step", "kill kafka"],
    proves: ["C2", "C3", "R11", "M10", "M11", "I2", "I6"],
  },
  {
    what: "every connection reset, garbage in every topic, and then a partition dropped and replayed",
    faults: ["every connection reset", "garbage in the log", "a partition dropped and replayed"],
    proves: ["C2", "C3", "C4", "C7", "R1", "R2", "R11", "M11", "I2"],
  },
  {
    what: "the stores killed at once, and then everything rebuilt into empty ones",
    faults: ["kill every store at once", "everything rebuilt"],
    proves: ["C2", "C3", "R5", "R11", "M1", "M11", "I2"],
  },
])(
  "$what: no law is broken",
  async ({ faults, proves }) => {
    number += 1;
    const cycle = await session.run(number, planFor(faults, SEED));
    console.log(lineOf(cycle));
    const said = cycle.broken.map(({ id, evidence }) => `${id}: ${evidence}`);
    expect(said, lines.slice(-40).join("\n")).toEqual([]);
    // A cycle whose fault had no effect would prove nothing.
    expect(cycle.faults.filter(({ took }) => !took)).toEqual([]);
    const kept = new Set(cycle.judgements.filter(({ verdict }) => verdict === "kept").map(({ id }) => id));
    expect(proves.filter((id) => !kept.has(id))).toEqual([]);
  },
  600_000,
);
