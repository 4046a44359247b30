// Every law of the suite in the order of their ids, and the function that checks them.
import { conservation, tenants } from "./conservation.ts";
import type { Evidence, Finding, Law } from "./law.ts";
import { liveness } from "./liveness.ts";
import { money } from "./money.ts";
import { order, replays } from "./order.ts";

const laws: readonly Law[] = [...conservation, ...replays, ...money, ...order, ...liveness, ...tenants];

export type Judgement = Finding & { readonly id: string; readonly says: string };

/** Checks every law; a law whose check throws is broken, and never left out. */
export const judge = async (evidence: Evidence): Promise<readonly Judgement[]> => {
  const found: Judgement[] = [];
  for (const { id, says, check } of laws) {
    try {
      found.push({ id, says, ...(await check(evidence)) });
    } catch (error) {
      found.push({ id, says, verdict: "broken", evidence: `could not be asked: ${(error as Error).message}` });
    }
  }
  return found;
};
