// A stack of its own for the suite: a proxy before every service, then servers, tables, demo
// clients and the whole product.

import { emptyHome, openHome, readJson } from "../../../infra/embedded/home.ts";
import { type Stack, startStack } from "../../../infra/embedded/supervisor.ts";
import { apps } from "../../../modules/installation/product.ts";
import { steps } from "../../../modules/installation/steps.ts";
import { ownConfig } from "../config.ts";
import { type Fronted, openTarget, type Target } from "../target.ts";
import { mountFolders } from "./mounts.ts";
import { openProxy, type TcpProxy } from "./proxy.ts";

export interface Stage {
  readonly target: Target;
  readonly close: () => Promise<void>;
}

const fronted: readonly Fronted[] = ["kafka", "postgres", "clickhouse", "redis", "registry"];

/**
 * Begins with an empty folder. `tell` hears every sentence of the supervisor. `isMounted`: we are
 * in a mount space of our own, so disks may be small.
 */
export const openStage = async (
  folder: string,
  random: () => number,
  tell: (text: string) => void,
  isMounted = false,
): Promise<Stage> => {
  const home = openHome(folder);
  if (isMounted) {
    emptyHome(home);
    mountFolders(home.folder);
  }
  const proxies: Partial<Record<Fronted, TcpProxy>> = {};
  const portOf = (name: Fronted): number => readJson<Record<string, number>>(home.path("ports.json"))?.[name] ?? 0;
  for (const name of fronted) proxies[name] = await openProxy(() => portOf(name), random);
  const closeProxies = () => Promise.all(Object.values(proxies).map((proxy) => proxy.close()));
  let stack: Stack | undefined;
  try {
    stack = await startStack({
      home: home.folder,
      fresh: !isMounted,
      config: ownConfig(),
      services: fronted,
      fronts: Object.fromEntries(fronted.map((name) => [name, proxies[name]!.port])),
      steps,
      apps,
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
