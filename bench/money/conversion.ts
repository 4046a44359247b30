// Measures the cost of a conversion from its claim to the ledger: settle, commission and the sinks
// of money in this process, with Postgres beside it, in batches as large as those of a steady rate.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Pool } from "pg";
import { startStack } from "../../infra/embedded/supervisor.ts";
import { postgresMemory } from "../../infra/postgres/durable-memory.ts";
import { migrate } from "../../infra/postgres/migrate.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { classify } from "../../infra/runtime/errors.ts";
import { table } from "../../infra/runtime/output.ts";
import { postgresStore } from "../../sinks/stores/postgres.ts";
import { chain } from "../../stream/chain.ts";
import type { AnySink, AnyTopic } from "../../stream/flow.ts";
import type { InputMessage, OutputMessage, ProcessBatch } from "../../stream/messages.ts";
import { partitionOf } from "../../stream/partitioner.ts";
import type { SinkPorts } from "../../stream/ports.ts";
import { runner } from "../../stream/runner.ts";
import { sinkRunner } from "../../stream/sink/sink-runner.ts";
import { noon, partnerId } from "../../tests/support/builders.ts";
import { topics } from "../../topics.ts";
import { pipeline } from "../../topology.ts";
import { cpuUsOf, save } from "../figures.ts";
import { claimOf, control, logPorts, PARTNERS, stagePorts } from "./claims.ts";

/** Two in a hundred of 16,700 events a second. */
const CONVERSIONS_A_SECOND = 334;
/** Money stages fetch this often (`durableReading`); sinks once a second. */
const FETCHES_A_SECOND = 2;
const WARM_SECONDS = 10;

/** Messages that a reader has not read yet, by partition. */
type Waiting = readonly InputMessage[][];

/** A log within one process: each reader of a topic gets the messages since its last read. */
const openLog = () => {
  const readers = new Map<string, { readonly offsets: number[]; readonly all: Waiting[] }>();
  return {
    read: ({ name, partitions }: AnyTopic): Waiting => {
      const waiting = Array.from({ length: partitions }, (): InputMessage[] => []);
      const topic = readers.get(name) ?? { offsets: waiting.map(() => 0), all: [] };
      readers.set(name, topic);
      topic.all.push(waiting);
      return waiting;
    },
    produce: (messages: readonly OutputMessage[]): void => {
      for (const { topic, key, value } of messages) {
        const { offsets, all } = readers.get(topic)!;
        const bytes = Buffer.from(key!);
        const partition = partitionOf(bytes, offsets.length);
        const message = { offset: offsets[partition]!++, key: bytes, value, headers: {}, appendedAt: noon };
        for (const waiting of all) waiting[partition]!.push(message);
      }
    },
  };
};

/** CPU microseconds of this process and of Postgres. */
interface Spent {
  readonly worker: number;
  readonly postgres: number;
}

/** Processes the waiting messages, one partition after the other or all of them joined. */
const workOff = async ({ reads, waiting, process: process_, isJoined }: Reader, postgres: number): Promise<Spent> => {
  const batches = waiting.flatMap((messages, partition) =>
    messages.length === 0 ? [] : { topic: reads.name, partition, messages: messages.splice(0) },
  );
  const postgresBefore = cpuUsOf(postgres);
  const before = process.cpuUsage();
  if (isJoined) await Promise.all(batches.map((batch) => process_(batch, control)));
  else for (const batch of batches) await process_(batch, control);
  const { user, system } = process.cpuUsage(before);
  return { worker: user + system, postgres: cpuUsOf(postgres) - postgresBefore };
};

interface Reader {
  readonly name: string;
  readonly reads: AnyTopic;
  readonly waiting: Waiting;
  readonly process: ProcessBatch;
  readonly isJoined: boolean;
}

const running = (pool: Pool) => {
  const log = openLog();
  const memory = postgresMemory(pool);
  const stage = (name: string, reads: AnyTopic): Reader => {
    const stages = runner(chain(pipeline, [name]), stagePorts(memory, log.produce));
    return { name, reads, waiting: log.read(reads), process: stages, isJoined: false };
  };
  const store = postgresStore(pool);
  const sinkPorts: SinkPorts = {
    ...logPorts(log.produce),
    classify,
    stores: { postgres: store, clickhouse: store, redis: store },
    run: "bench",
    countWrite: () => undefined,
  };
  const sink = (name: string): Reader => {
    const node = pipeline.nodes.find((one) => one.is === "sink" && one.name === name) as AnySink;
    return {
      name,
      reads: node.from,
      waiting: log.read(node.from),
      process: sinkRunner([node], sinkPorts),
      isJoined: true,
    };
  };
  return {
    produce: log.produce,
    stages: [stage("settle", topics.claims), stage("commission", topics.conversions)],
    sinks: [sink("product-sales"), sink("conversions"), sink("ledger")],
  };
};

interface Counters {
  readonly transactions: number;
  readonly rows: number;
  readonly walBytes: number;
  readonly walSyncs: number;
}
const countersOf = async (admin: Pool): Promise<Counters> => {
  await admin.query("select pg_stat_force_next_flush()");
  const { rows } = await admin.query<Counters>(`
    select xact_commit::float8 as transactions, (tup_inserted + tup_updated)::float8 as rows,
      (select wal_bytes::float8 from pg_stat_wal) as "walBytes",
      (select sum(fsyncs)::float8 from pg_stat_io where object = 'wal') as "walSyncs"
    from pg_stat_database where datname = current_database()`);
  return rows[0]!;
};

/** Processes `--seconds` (60) of `--rate` conversions a second, without waiting. */
export const run = async (options: { readonly seconds?: string; readonly rate?: string }): Promise<void> => {
  const seconds = Number(options.seconds ?? 60);
  const each = Math.round(Number(options.rate ?? CONVERSIONS_A_SECOND) / FETCHES_A_SECOND);
  const home = mkdtempSync(join(tmpdir(), "tributary-bench-"));
  const stack = await startStack({ home, services: ["postgres"] });
  const { POSTGRES_URL, POSTGRES_ADMIN_URL } = stack.env;
  await migrate(POSTGRES_ADMIN_URL!, { appPassword: new URL(POSTGRES_URL!).password });
  const [pool, admin] = [openPool(POSTGRES_URL!), openPool(POSTGRES_ADMIN_URL!, { max: 1 })];
  try {
    const { produce, stages, sinks } = running(pool);
    const pid = stack.pid("postgres")!;
    const spent = new Map<string, Spent>();
    const workOffAll = async (readers: readonly Reader[]): Promise<void> => {
      for (const reader of readers) {
        const { worker, postgres } = await workOff(reader, pid);
        const before = spent.get(reader.name) ?? { worker: 0, postgres: 0 };
        spent.set(reader.name, { worker: before.worker + worker, postgres: before.postgres + postgres });
      }
    };
    let n = 0;
    const second = async (): Promise<void> => {
      for (let fetch = 0; fetch < FETCHES_A_SECOND; fetch += 1) {
        for (const end = n + each; n < end; n += 1) {
          const order = `order-${n}`;
          const value = claimOf(n, { order, partner: partnerId + (n % PARTNERS) });
          produce([{ topic: topics.claims.name, key: order, value }]);
        }
        await workOffAll(stages);
      }
      await workOffAll(sinks);
    };
    // V8 compiles, and the tables grow beyond the size at which a scan is the cheapest plan.
    for (let warm = 0; warm < WARM_SECONDS; warm += 1) await second();
    spent.clear();
    const from = n;
    const [before, cpu] = [await countersOf(admin), cpuUsOf(pid)];
    for (let done = 0; done < seconds; done += 1) await second();
    const count = n - from;
    const postgres = (cpuUsOf(pid) - cpu) / count;
    const after = await countersOf(admin);
    const us = [...spent].map(([name, one]) => ({
      name,
      worker: one.worker / count,
      postgres: one.postgres / count,
    }));
    const worker = us.reduce((sum, one) => sum + one.worker, 0);
    const per = (name: keyof Counters): number => (after[name] - before[name]) / count;
    const counted = {
      transactions: per("transactions"),
      rows: per("rows"),
      walBytes: per("walBytes"),
      walSyncs: per("walSyncs"),
    };
    // Work of Postgres between the statements, for example a checkpoint, is only in the sum.
    const lines = [...us, { name: "sum", worker, postgres }].map((one) => [
      one.name,
      one.worker.toFixed(1),
      one.postgres.toFixed(1),
      (one.worker + one.postgres).toFixed(1),
    ]);
    const file = save("conversion", { seconds, count, us, worker, postgres, ...counted });
    process.stdout.write(
      `${table(["us a conversion", "worker", "postgres", "both"], lines)}\n` +
        `${count} conversions; of each ${counted.transactions.toFixed(3)} transactions, ` +
        `${counted.rows.toFixed(1)} rows written, ${counted.walBytes.toFixed(0)} bytes of WAL, ` +
        `${counted.walSyncs.toFixed(3)} syncs of it; kept in ${file}\n`,
    );
  } finally {
    await Promise.all([pool.end(), admin.end()]);
    await stack.stop();
    rmSync(home, { recursive: true, force: true });
  }
};
