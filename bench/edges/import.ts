// Measures how fast a stored file becomes events in the log, and the memory for it: rows are
// admitted, claimed, sent and counted.
import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { openObjects } from "../../infra/objects/open.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { table } from "../../infra/runtime/output.ts";
import { storeFile } from "../../modules/intake/imports/import-file.ts";
import { beginUpload, queueUpload } from "../../modules/intake/imports/imports.ts";
import { apps } from "../../modules/running/installation/product.ts";
import { cpuUsOf, median, rssMiBOf, save } from "../figures.ts";
import { openWorld } from "../world.ts";

interface Measured {
  readonly rowsPerSecond: number;
  readonly uploadUs: number;
  /** The highest of the samples, which are taken every half second. */
  readonly rssMiB: number;
}
const LOOK_MS = 500;
const CHUNK_ROWS = 2_000;

/** Sales with one line each, all from different devices and with different amounts. */
function* csv(run: number, rows: number): Generator<Buffer> {
  const day = new Date().toISOString().slice(0, 10);
  yield Buffer.from("order_id,revenue,currency,product_id,quantity,ts,did\n");
  for (let n = 0; n < rows; n += CHUNK_ROWS) {
    const some = Array.from({ length: Math.min(CHUNK_ROWS, rows - n) }, (_, m) => n + m);
    const lines = some.map(
      (row) => `B${run}-${row},${(row % 5_000) + 0.5},MXN,p-${row % 300},1,${day},d-${row % 50_000}`,
    );
    yield Buffer.from(`${lines.join("\n")}\n`);
  }
}

/** A file of `--events` rows (1,000,000), `--runs` times (1). Prints medians over the runs. */
export const run = async (options: { events?: string; runs?: string }): Promise<void> => {
  const rows = Number(options.events ?? 1_000_000);
  const runs = Number(options.runs ?? 1);
  const world = await openWorld(
    apps.filter(({ name }) => name === "upload"),
    { tokens: 0 },
  );
  const { env, pid: pidOf, run: running } = world.stack;
  const pool = openPool(env.POSTGRES_URL!, { name: "tributary-bench" });
  const owner = openPool(env.POSTGRES_ADMIN_URL!, { name: "tributary-bench" });
  const objects = openObjects(env.OBJECT_STORE_URL!);
  const { client_id, partner_id } = (running.demo as unknown as { links: { client_id: number; partner_id: number }[] })
    .links[0]!;
  const pid = pidOf("upload")!;
  const all: Measured[] = [];
  const imported = async (wanted: number, n: number): Promise<Measured> => {
    const asked = { client_id, partner_id, filename: "bench.csv", source: "put" as const, created_by: "bench" };
    const importId = (await beginUpload(pool, asked))!;
    const file = await storeFile(objects, importId, Readable.from(csv(n, wanted)), false);
    const before = cpuUsOf(pid);
    await queueUpload(pool, importId, client_id, file);
    let rssMiB = 0;
    for (;;) {
      await sleep(LOOK_MS);
      rssMiB = Math.max(rssMiB, rssMiBOf(pid));
      const { rows: found } = await owner.query<{ accepted: number; seconds: number | null }>(
        `select accepted::int as accepted, extract(epoch from finished_at - started_at)::float8 as seconds
         from imports where import_id = $1`,
        [importId],
      );
      const { accepted, seconds } = found[0]!;
      process.stderr.write(`\r${accepted} of ${wanted} rows, ${rssMiB.toFixed(0)} MiB `);
      if (seconds === null) continue;
      process.stderr.write("\n");
      if (accepted !== wanted) throw new Error(`${accepted} of ${wanted} rows were accepted`);
      return { rowsPerSecond: wanted / seconds, uploadUs: (cpuUsOf(pid) - before) / wanted, rssMiB };
    }
  };
  try {
    await imported(Math.min(rows, 20_000), 0);
    for (let n = 1; n <= runs; n += 1) all.push(await imported(rows, n));
  } finally {
    await Promise.all([pool.end(), owner.end(), objects.close()]);
    await world.stop();
  }
  const of = (name: keyof Measured): number => median(all.map((one) => one[name]));
  const line = [of("rowsPerSecond").toFixed(0), of("uploadUs").toFixed(1), of("rssMiB").toFixed(0)];
  process.stdout.write(`${table(["rows/s", "upload us", "highest RSS MiB"], [line])}\n`);
  process.stdout.write(`${save("import", { rows, runs: all })}\n`);
};
