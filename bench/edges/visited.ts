// Measures how many visitors one process of an edge answers a second, each stored in the log first,
// and how long they wait at half of that rate.
import { table } from "../../infra/runtime/output.ts";
import { apps } from "../../modules/running/installation/product.ts";
import { cpuUsOf, rssMiBOf, save } from "../figures.ts";
import type { VisitOrder } from "../load/visitors.ts";
import { CONNECTIONS, visits, WARM_UP_SECONDS } from "../load/visits.ts";
import { openWorld, type World } from "../world.ts";

type Asked = Pick<VisitOrder, "path" | "eventsOf" | "isPostback">;

/** `asked` returns the request of a visitor. Each run lasts `seconds` (20). */
export const measure = async (
  app: "links" | "pixel" | "ingest",
  asked: (world: World) => Asked | Promise<Asked>,
  options: { readonly seconds?: string },
): Promise<void> => {
  const seconds = Number(options.seconds ?? 20);
  const hosts = apps.filter(({ name }) => name === app);
  // Visitors of the bench share an address, so each sends its own in a header.
  const world = await openWorld(hosts.map((one) => ({ ...one, env: { TRUSTED_PROXIES: "loopback" } })));
  const rows: (readonly (string | number)[])[] = [];
  const runs: object[] = [];
  try {
    const { url } = world.stack.run.apps[app]!;
    const order = { port: Number(new URL(url).port), connections: CONNECTIONS, ...(await asked(world)) };
    await visits({ ...order, rate: 0, seconds: WARM_UP_SECONDS });
    let most = 0;
    for (const who of ["as many as are answered", "half of that"]) {
      const rate = Math.round(most / 2);
      const pid = world.stack.pid(app)!;
      const kafka = world.stack.pid("kafka")!;
      const before = cpuUsOf(pid);
      const broker = cpuUsOf(kafka);
      const result = await visits({ ...order, rate, seconds });
      const perSecond = result.answered / result.seconds;
      const us = (cpuUsOf(pid) - before) / result.answered;
      const brokerUs = (cpuUsOf(kafka) - broker) / result.answered;
      const rssMiB = rssMiBOf(pid);
      if (most === 0) most = perSecond;
      const waited = [result.p50Ms.toFixed(1), result.p99Ms.toFixed(1)];
      const cpu = [us, brokerUs, result.cpuUs / result.answered].map((one) => one.toFixed(1));
      rows.push([who, Math.round(perSecond), ...cpu, ...waited, rssMiB.toFixed(0), result.others]);
      runs.push({ who, rate, ...result, us, brokerUs, rssMiB });
    }
  } finally {
    await world.stop();
  }
  const headers = "visitors,answered/s,host us,broker us,generator us,p50 ms,p99 ms,RSS MiB,others".split(",");
  process.stdout.write(`${table(headers, rows)}\n`);
  process.stdout.write(`${save(app === "ingest" ? "postbacks" : app, { seconds, runs })}\n`);
};
