// The report of a run: one line a cycle, and at the end the proofs of each fault and the verdict of
// each law, with the bound that this number of trials allows.
import { table } from "../../infra/runtime/output.ts";
import type { Judgement } from "./laws/all.ts";
import type { Verdict } from "./laws/law.ts";
import type { Cycle } from "./session.ts";

/** The worst finding of a law over all cycles of a run, and how often it was kept. */
interface LawTotal {
  readonly id: string;
  readonly says: string;
  readonly verdict: Verdict;
  readonly kept: number;
  readonly broken: number;
  /** The evidence of the cycle that decided the verdict. */
  readonly evidence: string;
}
interface FaultTotal {
  readonly name: string;
  readonly id: string;
  /** Times that the fault was proven. */
  readonly proven: number;
  readonly void: number;
  readonly proof: string;
}
export interface Summary {
  /** Cycles with at least one proven fault. */
  readonly cycles: number;
  readonly voidCycles: number;
  readonly violations: number;
  readonly proven: number;
  readonly laws: readonly LawTotal[];
  readonly faults: readonly FaultTotal[];
}

const isProven = ({ faults }: Cycle): boolean => faults.some(({ took }) => took);
const worst = (found: readonly Judgement[]): Judgement =>
  found.find(({ verdict }) => verdict === "broken") ??
  found.findLast(({ verdict }) => verdict === "kept") ??
  found.at(-1)!;

export const summaryOf = (cycles: readonly Cycle[]): Summary => {
  const byLaw = new Map<string, Judgement[]>();
  for (const one of cycles.flatMap(({ judgements }) => judgements))
    byLaw.set(one.id, [...(byLaw.get(one.id) ?? []), one]);
  const laws = [...byLaw].map(([id, found]) => {
    const { says, verdict, evidence } = worst(found);
    const times = (of: Verdict) => found.filter((one) => one.verdict === of).length;
    return { id, says, verdict, evidence, kept: times("kept"), broken: times("broken") };
  });
  const byFault = new Map<string, FaultTotal>();
  for (const { name, id, took, what } of cycles.flatMap(({ faults }) => faults)) {
    const sum = byFault.get(name) ?? { name, id, proven: 0, void: 0, proof: what };
    byFault.set(name, {
      ...sum,
      proven: sum.proven + (took ? 1 : 0),
      void: sum.void + (took ? 0 : 1),
      proof: took ? what : sum.proof,
    });
  }
  const counted = cycles.filter(isProven);
  return {
    cycles: counted.length,
    voidCycles: cycles.length - counted.length,
    violations: cycles.filter(({ broken }) => broken.length > 0).length,
    proven: cycles.flatMap(({ faults }) => faults).filter(({ took }) => took).length,
    laws,
    faults: [...byFault.values()].sort((a, b) => (a.id < b.id ? -1 : 1)),
  };
};

/** One line: proven faults, verdicts of the laws, and the time. */
export const lineOf = (cycle: Cycle): string => {
  const { n, faults, broken, sent, quietMs, seconds, judgements } = cycle;
  const done = faults.map(({ name, took }) => (took ? name : `${name} (VOID)`)).join(" + ");
  const held = judgements.filter(({ verdict }) => verdict === "kept").length;
  const said = broken.length === 0 ? `${held} laws kept` : `BROKEN ${broken.map(({ id }) => id).join(" ")}`;
  return (
    `cycle ${n}: ${done} | ${sent} events, quiet after ${(quietMs / 1_000).toFixed(0)} s | ${said} | ` +
    `${seconds.toFixed(0)} s`
  );
};

const wording: Readonly<Record<Verdict, string>> = {
  kept: "kept",
  broken: "BROKEN",
  open: "not asked",
  missing: "not provable yet",
  elsewhere: "elsewhere",
};

/** Zero failures in N trials bound the rate at 3/N (95 %). */
const boundOf = (trials: number, failures: number): string =>
  failures > 0
    ? `${failures} of ${trials} failed`
    : trials === 0
      ? "nothing was tried"
      : `at most ${Math.min(100, 300 / trials).toFixed(2)} % of cycles (3/N, 95 %)`;

export const summaryText = (summary: Summary): string => {
  const shorten = (text: string, length: number) => (text.length > length ? `${text.slice(0, length - 3)}...` : text);
  const laws = table(
    ["law", "verdict", "cycles", "evidence"],
    summary.laws.map(({ id, verdict, kept, evidence }) => [id, wording[verdict], kept, shorten(evidence, 110)]),
  );
  const faults = table(
    ["fault", "name", "proven", "void", "a proof"],
    summary.faults.map((one) => [one.id, one.name, one.proven, one.void, shorten(one.proof, 80)]),
  );
  const end =
    `N = ${summary.cycles} cycles with ${summary.proven} proven faults, ${summary.voidCycles} void; ` +
    `violations: ${summary.violations}; bound: ${boundOf(summary.cycles, summary.violations)}`;
  return `${faults}\n\n${laws}\n\n${end}`;
};
