// Bad weather between the product and one of its stores. The proof is the damage that the proxy
// counted.
import type { Damage, Weather } from "../stage/weather.ts";
import type { FrontedServer } from "../target.ts";
import { between, type Fault, pause } from "./fault.ts";

const every: readonly FrontedServer[] = ["kafka", "postgres", "clickhouse", "redis", "registry"];
/** Services with constant traffic; the registry is only used when a process starts. */
const busy = every.filter((name) => name !== "registry");

interface Storm {
  readonly name: string;
  readonly id: string;
  readonly of: readonly FrontedServer[];
  readonly weather: (random: () => number) => Weather;
  readonly seen: (damage: Damage) => number;
  readonly lasts: readonly [number, number];
  /** Existing connections are reset when the weather begins. */
  readonly breaks?: boolean;
}
const storms: readonly Storm[] = [
  {
    name: "delay before",
    id: "F-10",
    of: busy,
    weather: (random) => ({ latencyMs: between(random, 20, 150), jitterMs: 200 }),
    seen: ({ delayed }) => delayed,
    lasts: [4_000, 10_000],
  },
  {
    name: "silence before",
    id: "F-11",
    of: busy,
    weather: () => ({ blackhole: true }),
    seen: ({ swallowed }) => swallowed,
    lasts: [3_000, 12_000],
  },
  {
    name: "refusal before",
    id: "F-11",
    of: busy,
    weather: () => ({ refuses: true }),
    seen: ({ refused }) => refused,
    lasts: [2_000, 8_000],
    breaks: true,
  },
  // The server did the work but its acknowledgement is lost; the place of the cut moves over the
  // whole answer.
  {
    name: "lost acknowledgements before",
    id: "F-10",
    of: busy,
    weather: (random) => ({ cutAfter: Math.floor(2 ** (random() * 14)) }),
    seen: ({ cut }) => cut,
    lasts: [3_000, 8_000],
  },
  {
    name: "one byte at a time before",
    id: "F-10",
    of: ["postgres", "redis", "clickhouse"],
    weather: () => ({ slice: 1 }),
    seen: ({ sliced }) => sliced,
    lasts: [3_000, 6_000],
  },
  {
    name: "little bandwidth before",
    id: "F-10",
    of: ["kafka", "postgres", "clickhouse"],
    weather: () => ({ bytesPerSecond: 20_000 }),
    seen: ({ sliced }) => sliced,
    lasts: [3_000, 8_000],
  },
  {
    name: "late ends before",
    id: "F-10",
    of: ["clickhouse", "redis", "postgres"],
    weather: () => ({ slowCloseMs: 3_000 }),
    seen: ({ lateEnds }) => lateEnds,
    lasts: [3_000, 6_000],
    breaks: true,
  },
];

const fault = (storm: Storm, name: FrontedServer): Fault => ({
  name: `${storm.name} ${name}`,
  before: name,
  id: storm.id,
  needs: "proxies",
  weight: 0.5,
  run: async ({ target, random }) => {
    const proxy = target.proxies[name]!;
    const ms = between(random, ...storm.lasts);
    proxy.weather(storm.weather(random));
    const reset = storm.breaks === true ? proxy.reset() : 0;
    await pause(ms);
    const damage = proxy.damage();
    proxy.weather({});
    // The swallowed bytes never arrive, so waiting connections are reset, as by a router that
    // restarts.
    if (damage.swallowed > 0) proxy.reset();
    const seen = storm.seen(damage);
    const done = Object.entries(damage).flatMap(([what, count]) => (count > 0 ? [`${what} ${count}`] : []));
    return {
      took: seen > 0,
      what:
        `${name} for ${(ms / 1_000).toFixed(1)} s: ` +
        `${done.join(", ") || "nothing passed"}${reset > 0 ? `, ${reset} connections reset` : ""}`,
    };
  },
});

const cut: Fault = {
  name: "every connection reset",
  id: "F-10",
  needs: "proxies",
  run: async ({ target, random }) => {
    const changes: string[] = [];
    let count = 0;
    for (let n = 0; n < 3; n += 1) {
      for (const name of every) {
        const reset = target.proxies[name]!.reset();
        count += reset;
        changes.push(`${name} ${reset}`);
      }
      await pause(between(random, 300, 2_000));
    }
    return { took: count > 0, what: `connections reset: ${changes.join(", ")}` };
  },
};

export const networkFaults: readonly Fault[] = [
  ...storms.flatMap((storm) => storm.of.map((name) => fault(storm, name))),
  cut,
];
