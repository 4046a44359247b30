// Runs the good tenants on a separate thread, so that their times do not include the making of
// hostile bodies.
import { parentPort, workerData } from "node:worker_threads";
import { type Sender, startGood } from "./senders.ts";

const { senders, prefix } = workerData as { readonly senders: readonly Sender[]; readonly prefix: string };
const goods = senders.map((sender) => startGood(sender, prefix));

parentPort!.on("message", async (asked: "times" | "stop") => {
  if (asked === "stop") for (const good of goods) await good.stop();
  parentPort!.postMessage({
    times: goods.flatMap((good) => good.times()),
    refused: goods.flatMap(({ refused }) => Object.entries(refused).map(([what, times]) => `${times} times ${what}`)),
    accepted: goods.reduce((sum, { accepted }) => sum + accepted.length, 0),
  });
  if (asked === "stop") parentPort!.close();
});
