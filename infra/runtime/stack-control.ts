// The client of a running stack's control door (infra/embedded/control-door.ts): restarts, stops,
// starts or pauses one of its processes by name.
import { askHttp } from "../outbound/ask-http.ts";

/**
 * `starting` includes a process that died and is being started again; a `stopped` one stays down
 * until it is started.
 */
export interface ProcessStatus {
  readonly name: string;
  readonly pid: number | null;
  readonly state: "running" | "paused" | "starting" | "stopped";
}

/** The address of the door; `control` of `run.json` (mode 0600). */
export interface ControlAddress {
  readonly url: string;
  readonly token: string;
}

export interface Control {
  /** Ends the process, by force after 10 s, and starts it again; resolves when it is healthy. */
  readonly restart: (name: string) => Promise<void>;
  /**
   * Returns true if the process was alive. A process that dies of the signal is restarted; a paused
   * one (SIGSTOP) stays paused until SIGCONT, or until it is restarted.
   */
  readonly signal: (name: string, signal: NodeJS.Signals) => Promise<boolean>;
  /** Resolves when the process is gone; it stays down until `start`. */
  readonly stop: (name: string) => Promise<void>;
  /** Starts a stopped process; resolves when it is healthy. */
  readonly start: (name: string) => Promise<void>;
  /** Every service and app of the stack in the order of starting. */
  readonly status: () => Promise<readonly ProcessStatus[]>;
}

// Ending by force takes 10 s, and a worker may wait 90 s for its groups (infra/embedded/app.ts).
const ANSWER_MS = 120_000;

/**
 * Every call rejects with one sentence of the door: the answer to an unknown name lists the known
 * ones. @throws Error if the stack has no door: an older version started it, or `run` does not come
 * from an embedded stack.
 */
export function controlOf(run: { readonly control?: ControlAddress }): Control {
  const { control } = run;
  if (control === undefined) throw new Error("This stack cannot be controlled from outside; start it again: npm start");
  const ask = async (method: "GET" | "POST", path: string): Promise<unknown> => {
    const { status, text } = await askHttp(new URL(`${control.url}${path}`), {
      method,
      headers: { authorization: `Bearer ${control.token}` },
      timeoutMs: ANSWER_MS,
    });
    const content = JSON.parse(text) as { error?: string };
    if (status >= 300) throw new Error(content.error ?? `the control door answered ${status}`);
    return content;
  };
  const act = async (verb: string, name: string, query = ""): Promise<unknown> =>
    ask("POST", `/processes/${encodeURIComponent(name)}/${verb}${query}`);
  return {
    restart: async (name) => void (await act("restart", name)),
    signal: async (name, signal) => ((await act("signal", name, `?signal=${signal}`)) as { sent: boolean }).sent,
    stop: async (name) => void (await act("stop", name)),
    start: async (name) => void (await act("start", name)),
    status: async () => (await ask("GET", "/processes")) as readonly ProcessStatus[],
  };
}
