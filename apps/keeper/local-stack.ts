// The stack that this process runs on, if any, as `run.json` in its folder describes it now.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type ControlAddress, controlOf } from "../../infra/runtime/stack-control.ts";

interface Run {
  readonly apps: { readonly api?: { readonly url: string } };
  readonly services: Readonly<Record<string, unknown>>;
  readonly control?: ControlAddress;
}

export interface LocalStack {
  /** The address of the platform API. */
  readonly apiUrl: () => string | undefined;
  /** Returns what restarts a service; undefined when the stack does not run that service. */
  readonly restart: (service: string) => (() => Promise<void>) | undefined;
}

/** Reads the file at each call, because a stack may start, stop and change its ports. */
export const localStack = (home: string): LocalStack => {
  const run = (): Run | undefined => {
    try {
      return JSON.parse(readFileSync(join(home, "run.json"), "utf8")) as Run;
    } catch {
      return undefined;
    }
  };
  return {
    apiUrl: () => run()?.apps.api?.url,
    restart: (service) => {
      const running = run();
      if (running?.control === undefined || running.services[service] === undefined) return undefined;
      return () => controlOf(running).restart(service);
    },
  };
};
