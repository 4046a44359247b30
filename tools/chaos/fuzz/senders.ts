// Senders of a fuzz run: good tenants with a steady rate and timed answers, and hostile ones.
import { once } from "node:events";
import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { randomFrom } from "../../../infra/runtime/random.ts";
import { type Address, converse, type ExchangeResult } from "./exchange.ts";
import { type Attack, drawAttack } from "./requests.ts";

/** The most bytes of one body; the limit of an edge is 25 MiB. */
export const MOST_BYTES = 24 * 1024 * 1024;

export interface Sender {
  readonly n: number;
  readonly clientId: number;
  readonly token: string;
  readonly address: Address;
}
export interface Good {
  /** Milliseconds of every answer since the last call. */
  readonly times: () => readonly number[];
  /** Counts of answers other than 200, and of requests without an answer. */
  readonly refused: Readonly<Record<string, number>>;
  /** Ids of accepted events. */
  readonly accepted: readonly string[];
  readonly stop: () => Promise<void>;
}

/** 86 requests a minute, so that the limit of a token is never reached. */
const EVERY_MS = 700;
const EVENTS_EACH = 50;
const DEADLINE_MS = 15_000;

const post = ({ address, token }: Sender, agent: Agent, body: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const sent = request(
      {
        agent,
        host: "127.0.0.1",
        port: address.port,
        localAddress: address.from,
        method: "POST",
        path: "/ingest/batch",
        headers: {
          authorization: `Bearer ${token}`,
          "content-type": "application/json",
          "content-length": Buffer.byteLength(body),
        },
        signal: AbortSignal.timeout(DEADLINE_MS),
      },
      (answer) => {
        answer.resume().once("end", () => resolve(answer.statusCode ?? 0));
      },
    );
    sent.once("error", reject).end(body);
  });

/** Starts at once. The ids of its events begin with `prefix`. */
export const startGood = (sender: Sender, prefix: string): Good => {
  const agent = new Agent({ keepAlive: true });
  let times: number[] = [];
  const refused: Record<string, number> = {};
  const accepted: string[] = [];
  let isStopping = false;
  let serial = 0;
  const sendOne = async (): Promise<void> => {
    const events = Array.from({ length: EVENTS_EACH }, () => {
      serial += 1;
      const event_id = `${prefix}-${sender.n}-${serial}`;
      const url = `https://shop.example/${serial}`;
      return { t: "page_view", ts: Date.now(), cid: sender.clientId, did: `${prefix}-${serial % 200}`, event_id, url };
    });
    const began = performance.now();
    const status = await post(sender, agent, JSON.stringify({ events })).catch((error: Error) => error.message);
    times.push(performance.now() - began);
    if (status === 200) for (const { event_id } of events) accepted.push(event_id);
    else refused[status] = (refused[status] ?? 0) + 1;
  };
  const running = (async () => {
    for (let due = performance.now(); !isStopping; due += EVERY_MS) {
      await sendOne();
      await sleep(Math.max(0, due + EVERY_MS - performance.now()));
      due = Math.max(due, performance.now() - EVERY_MS);
    }
    agent.destroy();
  })();
  return {
    times: () => {
      const taken = times;
      times = [];
      return taken;
    },
    refused,
    accepted,
    stop: async () => {
      isStopping = true;
      await running;
    },
  };
};

export interface GoodReport {
  readonly times: readonly number[];
  readonly refused: readonly string[];
  /** Number of accepted events. */
  readonly accepted: number;
}
/** Starts all good tenants on a separate thread. */
export const startGoods = (senders: readonly Sender[], prefix: string) => {
  const worker = new Worker(new URL("./good-worker.js", import.meta.url), { workerData: { senders, prefix } });
  const ask = async (what: "times" | "stop"): Promise<GoodReport> => {
    const answered = once(worker, "message");
    worker.postMessage(what);
    const [report] = await answered;
    return report as GoodReport;
  };
  return { report: () => ask("times"), stop: () => ask("stop") };
};

/** The answers to an attack; `--only <place>` draws it again. */
export interface AttackResult {
  readonly place: string;
  readonly attack: Attack;
  readonly said: readonly ExchangeResult[];
}

/** The n-th attack of a sender does not depend on earlier ones. */
export const attackOf = (sender: Sender, seed: number, n: number, mostBytes: number): Attack =>
  drawAttack({
    token: sender.token,
    clientId: sender.clientId,
    random: randomFrom(seed * 1_000_003 + sender.n * 100_003 + n),
    mostBytes,
  });

/** `port` if it is not the port of the sender's edge. */
export const runAttack = async (
  { address }: Sender,
  { conversations }: Attack,
  port = address.port,
): Promise<readonly ExchangeResult[]> => Promise.all(conversations.map((one) => converse({ ...address, port }, one)));

interface Storm {
  readonly seed: number;
  readonly mostBytes: number;
  readonly onAttacked: (attacked: AttackResult) => void;
  /** Names of the attacks under way, by place. */
  readonly underWay: Map<string, string>;
  /** The port of the edge for the next attack. */
  readonly port: () => number;
}

/** Sends attacks until stopped, `lanes` at a time. */
export const startHostile = (sender: Sender, lanes: number, storm: Storm) => {
  const { seed, mostBytes, onAttacked, underWay, port } = storm;
  let isStopping = false;
  let n = 0;
  const lane = async (): Promise<void> => {
    while (!isStopping) {
      n += 1;
      const place = `${sender.n}:${n}`;
      const attack = attackOf(sender, seed, n, mostBytes);
      underWay.set(place, attack.name);
      onAttacked({ place, attack, said: await runAttack(sender, attack, port()) });
      underWay.delete(place);
      await sleep(1);
    }
  };
  const running = Promise.all(Array.from({ length: lanes }, lane));
  return {
    stop: async (): Promise<void> => {
      isStopping = true;
      await running;
    },
  };
};
