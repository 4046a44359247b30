// Faults of one of three brokers. It is killed, stopped in order or paused beyond its session,
// which is proven by the new leaders of its partitions; or it is cut off, which is proven by the
// bytes that did not reach it.

import { lastingAdmin } from "../../../infra/kafka/kafka.ts";
import { until } from "../../../infra/runtime/timing/wait-until.ts";
import { topics } from "../../../topics.ts";
import type { Target } from "../target.ts";
import { type Fault, type Proof, pause, pick, type Scene } from "./fault.ts";
import { another, kill, pidOf, stateOf } from "./processes.ts";

const brokers = ["kafka", "kafka-2", "kafka-3"] as const;
type Broker = (typeof brokers)[number];
/** The node.id of the broker. */
const numberOf = (broker: Broker): number => brokers.indexOf(broker) + 1;

/** The topic whose leaders are read: every event goes through it. */
const LOOKED_AT = topics.eventsRaw.name;
/** The asked broker may be the paused one, which does not answer. */
const ANSWER_MS = 3_000;
/** A session is 4 s; a busy machine needs longer. */
const MOVED_MS = 60_000;
const IN_SYNC_MS = 120_000;
/**
 * The least time of an absence after others lead: clients find the new leaders, and more events
 * come.
 */
const AWAY_MS = 6_000;
/** Beyond the 10 s after which readers leave a broker, and followers leave their leader. */
const CUT_OFF_MS = 20_000;

const seconds = (since: number): string => `${((performance.now() - since) / 1_000).toFixed(1)} s`;

const placesOf = (target: Target) => {
  const lasting = lastingAdmin(target.kafka, ANSWER_MS);
  return { ask: () => lasting.ask((admin) => admin.copies(LOOKED_AT)), close: lasting.close };
};
type Places = ReturnType<typeof placesOf>;

const allInSync = (places: Places): Promise<string> => {
  const began = performance.now();
  return until("every partition is on every broker", IN_SYNC_MS, async () => {
    const missing = (await places.ask()).filter(({ inSync }) => inSync.length < brokers.length);
    if (missing.length > 0) throw new Error(`${missing.length} partitions are not`);
    return seconds(began);
  });
};
const ledBy = async (places: Places, broker: Broker): Promise<readonly number[]> =>
  (await places.ask()).flatMap(({ partition, leader }) => (leader === numberOf(broker) ? [partition] : []));

/** Waits until other brokers lead these partitions; returns how long that took. */
const othersLead = (places: Places, broker: Broker, led: readonly number[]): Promise<string> => {
  const began = performance.now();
  return until(`others lead what ${broker} led`, MOVED_MS, async () => {
    const still = (await ledBy(places, broker)).filter((partition) => led.includes(partition));
    if (still.length > 0) throw new Error(`it leads ${still.length} of ${led.length}`);
    return seconds(began);
  });
};
const acknowledgedSince = (scene: Scene): (() => number) => {
  const before = scene.load.acknowledged();
  return () => scene.load.acknowledged() - before;
};

/** Does the damage; returns what was done, once others lead. */
type Harm = (scene: Scene, broker: Broker, moved: () => Promise<string>) => Promise<string>;

/**
 * While a broker is away, others lead its partitions and events are still stored; then it catches
 * up.
 */
const away = async (scene: Scene, broker: Broker, harm: Harm): Promise<Proof> => {
  const places = placesOf(scene.target);
  try {
    await allInSync(places);
    const led = await until(`${broker} leads something`, IN_SYNC_MS, async () => {
      const found = await ledBy(places, broker);
      if (found.length === 0) throw new Error("it leads nothing");
      return found;
    });
    let moved = "";
    const acknowledged = acknowledgedSince(scene);
    const done = await harm(scene, broker, async () => {
      moved = await othersLead(places, broker, led);
      return moved;
    });
    const events = acknowledged();
    const inSync = await allInSync(places);
    return {
      took: moved !== "",
      what:
        `${done}; its ${led.length} of 12 partitions led by others after ${moved}, ${events} events ` +
        `acknowledged meanwhile, in sync again after ${inSync}`,
    };
  } finally {
    await places.close();
  }
};

const killed: Harm = async (scene, broker, moved) => {
  const was = await pidOf(scene, broker);
  process.kill(was, "SIGKILL");
  await moved();
  return `${broker} ${was} -> ${await another(scene, broker, was)}`;
};
const stopped: Harm = async (scene, broker, moved) => {
  const was = await pidOf(scene, broker);
  process.kill(was, "SIGTERM");
  await moved();
  return `${broker} ${was} -> ${await another(scene, broker, was)} after SIGTERM`;
};
const paused: Harm = async (scene, broker, moved) => {
  const pid = await pidOf(scene, broker);
  const began = performance.now();
  process.kill(pid, "SIGSTOP");
  try {
    await moved();
    await pause(AWAY_MS);
    return `${broker} ${pid} in state ${stateOf(pid)} for ${seconds(began)}`;
  } finally {
    process.kill(pid, "SIGCONT");
  }
};

const one = (name: string, harm: Harm): Fault => ({
  name,
  id: "F-25",
  needs: "cluster",
  run: (scene) => away(scene, pick(scene.random, brokers), harm),
});

/**
 * Clients and followers cannot reach the broker, but it reaches everything. It keeps its session
 * with the controllers, so there is no election, and its partitions wait until the heal.
 */
const cutOff: Fault = {
  name: "cut a broker off",
  id: "F-25",
  needs: "cluster",
  run: async (scene) => {
    const broker = pick(scene.random, brokers);
    const proxy = scene.target.proxies[broker]!;
    const places = placesOf(scene.target);
    try {
      await allInSync(places);
      const acknowledged = acknowledgedSince(scene);
      proxy.weather({ blackhole: true });
      await pause(CUT_OFF_MS);
      const led = await until("who leads is known", IN_SYNC_MS, () => ledBy(places, broker));
      const events = acknowledged();
      const { swallowed } = proxy.damage();
      proxy.weather({});
      // The swallowed bytes never arrive, as behind a router that restarted, so connections are
      // reset.
      proxy.reset();
      const inSync = await allInSync(places);
      return {
        took: swallowed > 0 && led.length > 0,
        what:
          `${swallowed} bytes did not reach ${broker}, which still led ${led.length} of 12 partitions; ${events} ` +
          `events acknowledged meanwhile, in sync again after ${inSync}`,
      };
    } finally {
      proxy.weather({});
      await places.close();
    }
  },
};

const eachInTurn: Fault = {
  name: "kill each broker in turn",
  id: "F-25",
  needs: "cluster",
  run: async (scene) => {
    const proofs: Proof[] = [];
    for (const broker of brokers) {
      proofs.push(await away(scene, broker, killed));
      scene.tell(proofs.at(-1)!.what);
    }
    return { took: proofs.every(({ took }) => took), what: proofs.map(({ what }) => what).join("; ") };
  },
};

export const brokerFaults: readonly Fault[] = [
  one("kill a broker", killed),
  one("stop a broker in order", stopped),
  one("pause a broker beyond its session", paused),
  cutOff,
  eachInTurn,
  { ...kill("worker-chain-2", "F-02"), needs: "cluster" },
  { ...kill("worker-money-2", "F-02"), needs: "cluster" },
  { ...kill("ingest-standby", "F-01"), needs: "cluster" },
];
