// Runs visitors (visitors.ts) in a separate process, so that their CPU is measured apart.
import { spawn } from "node:child_process";
import type { VisitOrder, VisitResult } from "./visitors.ts";

/** V8 and the broker compile during this time. */
export const WARM_UP_SECONDS = 15;
/**
 * A request waits for the log: with few connections that wait would be measured instead of the
 * host.
 */
export const CONNECTIONS = 512;

export const visits = (order: VisitOrder): Promise<VisitResult> =>
  new Promise((resolve, reject) => {
    const program = new URL("./visitors.js", import.meta.url).pathname;
    const child = spawn(process.execPath, [program], { stdio: ["pipe", "pipe", "inherit"] });
    child.stdin.end(JSON.stringify(order));
    let text = "";
    child.stdout.on("data", (part) => (text += part));
    child.once("exit", (code) =>
      code === 0 ? resolve(JSON.parse(text) as VisitResult) : reject(new Error(`the visitors ended with ${code}`)),
    );
  });
