// One connection of a hostile sender: it sends bytes, pauses and an end, and collects everything
// that comes back.
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

export interface Address {
  readonly port: number;
  /** The loopback address of this sender, so that limits by address count each sender alone. */
  readonly from: string;
}
/** A number is a pause in ms. */
export type Step = string | Buffer | number;
export interface Conversation {
  readonly steps: readonly Step[];
  /** The sender's action after the last step. */
  readonly ending: "wait" | "end" | "destroy";
  /** The longest time that it waits for an end. */
  readonly patienceMs: number;
}
export interface ExchangeResult {
  readonly statuses: readonly number[];
  readonly text: string;
}

const MOST_KEPT = 1_000_000;
/** After this silence an answer is complete, and no other one follows. */
const QUIET_MS = 1_500;

/** Never rejects: a broken connection returns what was received until then. */
export const converse = (
  { port, from }: Address,
  { steps, ending, patienceMs }: Conversation,
): Promise<ExchangeResult> =>
  new Promise((resolve) => {
    let text = "";
    let isSent = false;
    const socket = connect({ port, host: "127.0.0.1", localAddress: from, allowHalfOpen: true });
    const patience = setTimeout(() => socket.destroy(), patienceMs);
    let quiet: NodeJS.Timeout | undefined;
    const rest = (): void => {
      clearTimeout(quiet);
      if (isSent && text !== "") quiet = setTimeout(() => socket.destroy(), QUIET_MS);
    };
    socket.on("data", (chunk) => {
      if (text.length < MOST_KEPT) text += chunk.toString("latin1");
      rest();
    });
    socket.on("error", () => undefined);
    socket.once("end", () => socket.destroy());
    socket.once("close", () => {
      clearTimeout(patience);
      clearTimeout(quiet);
      const statuses = [...text.matchAll(/HTTP\/1\.[01] (\d{3}) /g)].map(([, status]) => Number(status));
      resolve({ statuses, text });
    });
    socket.once("connect", async () => {
      for (const step of steps) {
        if (socket.destroyed) return;
        if (typeof step === "number") await sleep(step);
        else if (!socket.write(step)) await new Promise((go) => socket.once("drain", go).once("close", go));
      }
      isSent = true;
      if (ending === "end") socket.end();
      if (ending === "destroy") socket.destroy();
      rest();
    });
  });
