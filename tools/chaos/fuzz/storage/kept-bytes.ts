// The bytes that every store of an installation on this machine keeps now.
import { readdirSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { Target } from "../../target.ts";

export const stores = ["kafka", "postgres", "clickhouse", "redis", "objects", "spools", "logs"] as const;
type Store = (typeof stores)[number];
export type KeptBytes = Readonly<Record<Store, number>>;
export interface KeptNow {
  readonly bytes: KeptBytes;
  /** The segments of each topic. */
  readonly topics: ReadonlyMap<string, number>;
  readonly atMs: number;
}

/** Files come and go while they are counted, so one that is gone counts nothing. */
const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0;

const filesIn = (folder: string): readonly string[] => {
  try {
    return readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => join(parentPath, name));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
};
const folderBytes = (folder: string): number => filesIn(folder).reduce((sum, file) => sum + sizeOf(file), 0);

/** Segments alone: the broker makes the files of an index large in advance. */
const topicsIn = (folder: string): ReadonlyMap<string, number> => {
  const topics = new Map<string, number>();
  for (const file of filesIn(folder)) {
    if (!file.endsWith(".log")) continue;
    const topic = basename(dirname(file)).replace(/-\d+$/, "");
    topics.set(topic, (topics.get(topic) ?? 0) + sizeOf(file));
  }
  return topics;
};

const datasetOf = (info: string): number => Number(/^used_memory_dataset:(\d+)/m.exec(info)?.[1] ?? 0);

/**
 * The write-ahead log of Postgres is not counted: it is recycled at a fixed size. Parts of
 * ClickHouse that a merge has replaced are not counted either, because they are about to go.
 */
export const keptNow = async ({ home, rows, select, redis }: Target): Promise<KeptNow> => {
  await rows("checkpoint");
  const [database] = await rows<{ bytes: string }>("select pg_database_size(current_database())::text as bytes");
  const [parts] = await select<{ bytes: string }>(
    "select toString(sum(bytes_on_disk)) as bytes from system.parts where active",
  );
  const topics = topicsIn(join(home, "kafka", "data"));
  return {
    atMs: performance.now(),
    topics,
    bytes: {
      kafka: [...topics.values()].reduce((sum, bytes) => sum + bytes, 0),
      postgres: Number(database!.bytes),
      clickhouse: Number(parts!.bytes),
      redis: datasetOf(await redis.info("memory")),
      objects: folderBytes(join(home, "objects")),
      spools: folderBytes(join(home, "spool")),
      logs: folderBytes(join(home, "logs")),
    },
  };
};

const each = (value: (store: Store) => number): KeptBytes =>
  Object.fromEntries(stores.map((store) => [store, value(store)])) as KeptBytes;

/** What came between the two, as bytes a millisecond. */
export const rateOf = (before: KeptNow, after: KeptNow): KeptBytes =>
  each((store) => (after.bytes[store] - before.bytes[store]) / (after.atMs - before.atMs));

/** What came between the two, less what comes by itself in that time; never below zero. */
export const grownBy = (before: KeptNow, after: KeptNow, quiet: KeptBytes): KeptBytes =>
  each((store) =>
    Math.max(0, after.bytes[store] - before.bytes[store] - Math.max(0, quiet[store]) * (after.atMs - before.atMs)),
  );

export const sumOf = (bytes: KeptBytes): number => stores.reduce((sum, store) => sum + bytes[store], 0);
export const added = (one: KeptBytes, other: KeptBytes): KeptBytes => each((store) => one[store] + other[store]);
export const nothingKept: KeptBytes = each(() => 0);
