// Every law of the suite in the order of their ids, and how they are asked.
import { conservation, tenants } from "./conservation.ts";
import type { Evidence, Finding, Law } from "./law.ts";
import { liveness } from "./liveness.ts";
import { money } from "./money.ts";
import { order, replays } from "./order.ts";

const laws: readonly Law[] = [...conservation, ...replays, ...money, ...order, ...liveness, ...tenants];

export type Judgement = Finding & { readonly id: string; readonly says: string };

/**
 * Asks every law; one that cannot be asked because its question fails is broken, never left out.
 */
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
