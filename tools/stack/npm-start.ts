// `npm start`: starts the stack, shows it, and stops everything at Ctrl-C or when its terminal is
// closed.
import { parseArgs } from "node:util";
import type { App } from "../../infra/embedded/app.ts";
import { stackConfig } from "../../infra/embedded/config.ts";
import { openHome } from "../../infra/embedded/home.ts";
import { type Stack, type StackEvent, type Step, startStack } from "../../infra/embedded/supervisor.ts";

export interface Flags {
  /** Runs the story once, prints the stored rows, and exits. */
  readonly isOnce: boolean;
  /** Sends demo traffic. */
  readonly hasDemo: boolean;
}

/** The part that people see; without one, plain lines are printed. */
export interface Show {
  /** Gets everything that happens, from the first start to the last stop. */
  readonly onEvent?: (event: StackEvent) => void;
  /**
   * Runs when everything is ready: screen, demo traffic and story. It must end soon after `leaving`
   * is aborted. When it returns, the stack stays up until Ctrl-C; with `isOnce` it stops.
   */
  readonly whenReady?: (stack: Stack, flags: Flags, leaving: AbortSignal) => Promise<void>;
}

export interface Product {
  readonly apps: readonly App[];
  readonly steps: readonly Step[];
  readonly show?: Show;
}

// One Ctrl-C arrives twice: from the terminal, and through npm. Two that a person presses are
// further apart.
const SAME_GESTURE_MS = 500;

const LAST_SCENE_MS = 5_000;

/** @throws Error in one sentence when an argument is unknown. */
export function flagsOf(args: readonly string[]): Flags {
  const { values } = parseArgs({
    args: [...args],
    options: {
      once: { type: "boolean", default: false },
      "no-demo": { type: "boolean", default: false },
    },
  });
  return { isOnce: values.once, hasDemo: !values["no-demo"] };
}

/** Resolves with the exit code once everything has stopped. */
export async function npmStart({ apps, steps, show = {} }: Product, flags: Flags): Promise<number> {
  const leaving = new AbortController();
  let firstAt: number | undefined;
  const leave = (name: NodeJS.Signals) => {
    firstAt ??= performance.now();
    // The stack kills its remaining processes when this process exits.
    if (performance.now() - firstAt > SAME_GESTURE_MS) process.exit(130);
    leaving.abort(new Error(`stopped by ${name}`));
  };
  // A closed terminal asks to stop in order, also during a stop, and never to hurry.
  const hangUp = () => leaving.abort(new Error("its terminal was closed"));
  process.on("SIGINT", leave);
  process.on("SIGTERM", leave);
  process.on("SIGHUP", hangUp);
  // Writing to a closed terminal fails (EIO, EPIPE), which must not end this process before its
  // stack.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", ignore);
  const onEvent = show.onEvent ?? ((event: StackEvent) => console.log(event.text));
  const config = stackConfig();
  let stack: Stack | undefined;
  try {
    stack = await startStack({
      home: openHome(config.TRIBUTARY_HOME).folder,
      config,
      apps,
      steps,
      onEvent,
      signal: leaving.signal,
    });
    if (show.onEvent === undefined) printAddresses(stack);
    const shown = show.whenReady?.(stack, flags, leaving.signal) ?? Promise.resolve();
    await Promise.race([shown, aborted(leaving.signal)]);
    if (!flags.isOnce) await aborted(leaving.signal);
    // Traffic ends before the apps that receive it. A show that does not end is abandoned.
    await Promise.race([shown, aborted(AbortSignal.timeout(LAST_SCENE_MS))]);
    return 0;
  } catch (error) {
    if (leaving.signal.aborted) return 0;
    console.error(error instanceof Error ? error.message : error);
    return 1;
  } finally {
    await stack?.stop();
    process.off("SIGINT", leave);
    process.off("SIGTERM", leave);
    process.off("SIGHUP", hangUp);
  }
}

const ignore = (): void => undefined;

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) return resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });

function printAddresses(stack: Stack): void {
  const { apps, services } = stack.run;
  const rows = [
    ...Object.entries(apps).map(([name, { url }]) => [name, url]),
    ...Object.entries(services).map(([name, address]) => [
      name,
      "brokers" in address ? address.brokers : withoutPassword(address.url),
    ]),
  ];
  for (const [name, address] of rows) console.log(`  ${name!.padEnd(14)} ${address}`);
  console.log(`  ${"passwords".padEnd(14)} ${stack.home}/run.json\nCtrl-C stops everything.`);
}

function withoutPassword(url: string): string {
  const parsed = new URL(url);
  parsed.password = "";
  return parsed.href;
}
