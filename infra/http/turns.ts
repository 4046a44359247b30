// Lets a few requests of a key run at once; the others wait for their turn.
import { Problem } from "./problem.ts";

interface TurnsSettings {
  readonly atOnce: number;
  /** More waiting requests of a key are refused. */
  readonly mostWaiting: number;
  /** A request that has waited this long is refused. */
  readonly patienceMs: number;
  /** The detail of a refusal. */
  readonly says: string;
}

/**
 * Resolves when it is the turn of the request; call the result once it has ended. Throws Problem
 * 429. Holds no key without requests.
 */
export const openTurns = ({ atOnce, mostWaiting, patienceMs, says }: TurnsSettings) => {
  const keys = new Map<string, { running: number; readonly waiting: (() => void)[] }>();
  const refused = () => new Problem("rate_limited", says, { headers: { "Retry-After": "1" } });

  const leave = (key: string): void => {
    const turns = keys.get(key)!;
    const next = turns.waiting.shift();
    if (next !== undefined) next();
    else if (turns.running === 1) keys.delete(key);
    else turns.running -= 1;
  };
  const once = (key: string): (() => void) => {
    let isIn = true;
    return () => {
      if (isIn) leave(key);
      isIn = false;
    };
  };

  return async (key: string): Promise<() => void> => {
    const turns = keys.get(key) ?? { running: 0, waiting: [] };
    keys.set(key, turns);
    if (turns.running < atOnce) {
      turns.running += 1;
      return once(key);
    }
    if (turns.waiting.length >= mostWaiting) throw refused();
    await new Promise<void>((resolve, reject) => {
      const start = (): void => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(() => {
        turns.waiting.splice(turns.waiting.indexOf(start), 1);
        reject(refused());
      }, patienceMs);
      turns.waiting.push(start);
    });
    return once(key);
  };
};
