// `run.json`: the running processes of a stack and their addresses, for programs that find the
// stack by its folder.
import { rmSync } from "node:fs";
import type { ControlAddress } from "../runtime/stack-control.ts";
import { type App, appUrls } from "./app.ts";
import type { Crew } from "./crew.ts";
import { writeJson } from "./home.ts";
import type { Address, ServiceName } from "./service.ts";
import type { Layout } from "./stack-layout.ts";

/**
 * The content of `.tributary/run.json`. A `pid` is null for a server that runs outside or is being
 * started again.
 */
export interface Run {
  readonly ready: boolean;
  readonly apps: Readonly<
    Record<string, { readonly url: string; readonly ops_url: string; readonly pid: number | null }>
  >;
  readonly services: Readonly<Partial<Record<ServiceName, Address & { readonly pid: number | null }>>>;
  readonly demo: Readonly<Record<string, unknown>>;
  /**
   * The door through which processes are restarted, stopped and paused by name:
   * infra/runtime/stack-control.ts.
   */
  readonly control: ControlAddress;
}

/** Writes the file whenever its content changes, and no more once it is removed. */
export const runFile = ({ wanted, ports, config, env, place: { home } }: Layout, crew: Crew) => {
  let demo: Run["demo"] = {};
  let isReady = false;
  let isRemoved = false;
  let control: ControlAddress | undefined;
  const started = new Map<string, App>();
  const pidOf = (name: string): number | null => crew.find(name)?.pid() ?? null;
  const run = (): Run => ({
    ready: isReady,
    apps: Object.fromEntries(
      [...started.values()].map((app) => [app.name, { ...appUrls(ports, app, config), pid: pidOf(app.name) }]),
    ),
    services: Object.fromEntries(
      wanted.map((service) => [service.name, { ...service.address(env), pid: pidOf(service.name) }]),
    ),
    demo,
    control: control!,
  });
  const publish = (): void => {
    if (!isRemoved && control !== undefined) writeJson(home.path("run.json"), run());
  };
  return {
    run,
    publish,
    opened: ({ url, token }: ControlAddress): void => {
      control = { url, token };
    },
    addApp: (app: App): void => void started.set(app.name, app),
    addDemo: (made: Run["demo"]): void => {
      demo = { ...demo, ...made };
      publish();
    },
    ready: (): void => {
      isReady = true;
      publish();
    },
    remove: (): void => {
      isRemoved = true;
      rmSync(home.path("run.json"), { force: true });
    },
  };
};
