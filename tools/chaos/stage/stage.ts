// A stack for the suite: a proxy in front of every service, servers, tables, demo clients and the
// whole product.

import { emptyHome, openHome, readJson } from "../../../infra/embedded/home.ts";
import { type Stack, startStack } from "../../../infra/embedded/supervisor.ts";
import { apps } from "../../../modules/running/installation/product.ts";
import { steps } from "../../../modules/running/installation/steps.ts";
import { ownConfig } from "../config.ts";
import { type FrontedServer, openTarget, type Target } from "../target.ts";
import { mountFolders } from "./mounts.ts";
import { openProxy, type TcpProxy } from "./proxy.ts";

export interface Stage {
  readonly target: Target;
  readonly close: () => Promise<void>;
}

const services = ["kafka", "postgres", "clickhouse", "redis", "registry"] as const;
const moreBrokers = ["kafka-2", "kafka-3"] as const;
/** A second worker of each group; the product has a second edge already. */
const moreWorkers = apps.flatMap((app) => (app.login === "worker" ? [{ ...app, name: `${app.name}-2` }] : []));

interface StageSettings {
  readonly random: () => number;
  /** Gets every line of the supervisor. */
  readonly tell: (text: string) => void;
  /** The process is in a separate mount namespace, so disks may be small. */
  readonly isMounted?: boolean;
  /** Three brokers, and two workers a group. */
  readonly isCluster?: boolean;
}

/** Begins with an empty folder. */
export const openStage = async (
  folder: string,
  { random, tell, isMounted = false, isCluster = false }: StageSettings,
): Promise<Stage> => {
  const home = openHome(folder);
  const fronted: readonly FrontedServer[] = [...services, ...(isCluster ? moreBrokers : [])];
  if (isMounted) {
    emptyHome(home);
    mountFolders(home.folder);
  }
  const proxies: Partial<Record<FrontedServer, TcpProxy>> = {};
  const portOf = (name: FrontedServer): number =>
    readJson<Record<string, number>>(home.path("ports.json"))?.[name] ?? 0;
  for (const name of fronted) proxies[name] = await openProxy(() => portOf(name), random);
  const closeProxies = () => Promise.all(Object.values(proxies).map((proxy) => proxy.close()));
  let stack: Stack | undefined;
  try {
    stack = await startStack({
      home: home.folder,
      fresh: !isMounted,
      config: ownConfig(),
      services,
      brokers: isCluster ? 3 : 1,
      fronts: Object.fromEntries(fronted.map((name) => [name, proxies[name]!.port])),
      steps,
      apps: [...apps, ...(isCluster ? moreWorkers : [])],
      onEvent: ({ text }) => tell(text),
    });
    const target = await openTarget(home.folder, proxies);
    return {
      target,
      close: async () => {
        await target.close();
        await stack!.stop();
        await closeProxies();
      },
    };
  } catch (error) {
    await stack?.stop();
    await closeProxies();
    throw error;
  }
};

/** Opens a stage for `work` and closes it afterwards, also when a signal ends the process. */
export const onStage = async <T>(
  folder: string,
  settings: StageSettings,
  work: (target: Target) => Promise<T>,
): Promise<T> => {
  const stage = await openStage(folder, settings);
  const leave = () => void stage.close().then(() => process.exit(130));
  process.once("SIGINT", leave);
  process.once("SIGTERM", leave);
  try {
    return await work(stage.target);
  } finally {
    process.off("SIGINT", leave);
    process.off("SIGTERM", leave);
    await stage.close();
  }
};
