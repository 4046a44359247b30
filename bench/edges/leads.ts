// Measures how many signed leads a second one API process stores; each is answered after its
// commit.
import { createHmac } from "node:crypto";
import { Agent, request } from "node:http";
import { table } from "../../infra/runtime/output.ts";
import { apps } from "../../modules/running/installation/product.ts";
import { cpuUsOf, median, rssMiBOf, save } from "../figures.ts";
import { openWorld } from "../world.ts";

interface Shop {
  readonly id: number;
  readonly hmac_secret: string;
}
interface Measured {
  readonly leadsPerSecond: number;
  readonly apiUs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly rssMiB: number;
  readonly others: number;
}
const IN_FLIGHT = 256;
const WARM_UP_SECONDS = 12;
const agent = new Agent({ keepAlive: true, maxSockets: IN_FLIGHT });
let serial = 0;

const push = (url: string, { id, hmac_secret: secret }: Shop): Promise<number> => {
  serial += 1;
  const body = JSON.stringify({
    ...{ client_lead_id: `bench-${process.pid}-${serial}`, first_name: "Ana", last_name: "Quetzal" },
    ...{ email: `ana${serial}@shop.example`, phone: `55${String(10_000_000 + serial)}`, product: "credit-card" },
    ...{ stage: "new", lead_value: 120.5, currency: "MXN", branch: "Polanco" },
  });
  const signature = createHmac("sha256", secret).update(body).digest("hex");
  return new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json", "x-svc-signature": signature };
    request(
      `${url}/api/pixel/lead-submission?client_id=${id}`,
      { method: "POST", agent, headers: { ...headers, "content-length": Buffer.byteLength(body) } },
      (answer) => {
        answer.resume();
        answer.once("end", () => resolve(answer.statusCode!));
      },
    )
      .once("error", reject)
      .end(body);
  });
};

/** The shops take turns, because one shop may only send 100,000 leads a minute. */
const load = async (url: string, shops: readonly Shop[], seconds: number) => {
  const until = performance.now() + seconds * 1_000;
  const times: number[] = [];
  let others = 0;
  const work = async (): Promise<void> => {
    while (performance.now() < until) {
      const began = performance.now();
      const status = await push(url, shops[serial % shops.length]!);
      if (status === 200) times.push(performance.now() - began);
      else others += 1;
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, work));
  return { times: times.sort((a, b) => a - b), others };
};

/** `--seconds` a run (20), `--runs` (3). Prints medians over the runs. */
export const run = async (options: { seconds?: string; runs?: string }): Promise<void> => {
  const seconds = Number(options.seconds ?? 20);
  const runs = Number(options.runs ?? 3);
  const world = await openWorld(
    apps.filter(({ name }) => name === "api"),
    { tokens: 0, services: ["identity"] },
  );
  const all: Measured[] = [];
  try {
    const { url } = world.stack.run.apps.api!;
    const pid = world.stack.pid("api")!;
    const shops = (world.stack.run.demo as unknown as { readonly clients: readonly Shop[] }).clients;
    await load(url, shops, WARM_UP_SECONDS);
    for (let n = 0; n < runs; n += 1) {
      const before = cpuUsOf(pid);
      const { times, others } = await load(url, shops, seconds);
      const at = (share: number): number => times[Math.floor(times.length * share)]!;
      all.push({
        ...{ leadsPerSecond: times.length / seconds, apiUs: (cpuUsOf(pid) - before) / times.length },
        ...{ p50Ms: at(0.5), p99Ms: at(0.99), rssMiB: rssMiBOf(pid), others },
      });
      process.stderr.write(`run ${n + 1} of ${runs}: ${Math.round(all.at(-1)!.leadsPerSecond)} leads/s\n`);
    }
  } finally {
    agent.destroy();
    await world.stop();
  }
  const of = (name: keyof Measured): number => median(all.map((one) => one[name]));
  const rows = [
    [
      ...[of("leadsPerSecond").toFixed(0), of("apiUs").toFixed(0), of("p50Ms").toFixed(1), of("p99Ms").toFixed(1)],
      ...[of("rssMiB").toFixed(0), String(all.reduce((sum, { others }) => sum + others, 0))],
    ],
  ];
  process.stdout.write(`${table(["leads/s", "API us", "p50 ms", "p99 ms", "RSS MiB", "not 200"], rows)}\n`);
  process.stdout.write(`${save("leads", { seconds, runs: all })}\n`);
};
