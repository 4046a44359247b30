// An import of a file that takes long to read sees by the bytes of the file that it is cancelled or
// that its process stops, also before the first row; and it says how many lines were blank.
import { randomUUID } from "node:crypto";
import type pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { pageOfRows } from "../../infra/postgres/rows.ts";
import { sql, transaction } from "../../infra/postgres/sql.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { cancelWithin } from "../../modules/intake/imports/cancel.ts";
import { MOST_BYTES, PART_BYTES } from "../../modules/intake/imports/import-file.ts";
import { importRows } from "../../modules/intake/imports/import-reads.ts";
import { openImporter } from "../../modules/intake/imports/run/importer.ts";
import { topics } from "../../topics.ts";
import { clientId } from "../support/builders.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";
import { inMemoryObjects } from "../support/in-memory-objects.ts";
import { token as facts } from "../support/shop.ts";

let database: FreshDatabase;
let pool: pg.Pool;
beforeAll(async () => {
  database = await freshDatabase();
  pool = database.pool({ max: 4 });
});
afterAll(() => database.drop());

const HEAD = "order_id,revenue,product_id,quantity,ts\n";
/** A head and line feeds, made piece by piece: 5 GiB are never there at once. */
const feeds = (() => {
  const piece = Buffer.alloc(PART_BYTES, "\n");
  return (part: number): Buffer => {
    if (part > 0) return piece;
    const first = Buffer.from(piece);
    first.write(HEAD);
    return first;
  };
})();

interface File {
  readonly parts: number;
  readonly piece: (part: number) => Buffer;
  /** Undefined: it came in parts, and is not read yet. */
  readonly sha256?: string;
  readonly checkpoint?: object;
}

/**
 * An importer at work on one file, of which a row was claimed; `read` is the number of pieces that
 * it has asked for.
 */
const atWork = async ({ parts, piece, sha256, checkpoint }: File) => {
  const id = `imp_${randomUUID()}`;
  const write = async (tx: pg.PoolClient): Promise<void> => {
    await tx.query(sql`
      insert into imports (import_id, client_id, partner_id, filename, source, status, created_by, parts, bytes, sha256,
        checkpoint)
      values (${id}, ${clientId}, 1, 'long.csv', 'v3', 'queued', 'test', ${parts}, ${parts * PART_BYTES}::bigint,
        ${sha256 ?? null}, ${checkpoint === undefined ? null : JSON.stringify(checkpoint)}::jsonb)`);
    await tx.query("set local role tributary_upload");
    await tx.query(sql`insert into import_rows (client_id, event_id, import_id, line)
      values (${clientId}, ${randomUUID()}, ${id}, 2)`);
  };
  await transaction(pool, [clientId], write);
  let read = 0;
  const objects = {
    ...inMemoryObjects(),
    get: async (key: string) => {
      read += 1;
      return piece(Number(/\d+$/.exec(key)![0]));
    },
  };
  const wire = inMemoryWire([topics.eventsRaw]);
  const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const importer = openImporter({
    ...{ pool, objects, wire: () => wire, path: { store: async () => undefined }, facts: () => facts() },
    ...{ clock: Date.now, log: quiet },
  });
  const names = ["status", "total", "accepted", "rejected", "blank_lines", "error"];
  const reading = { names, sort: "-created_at", clients: [clientId] };
  const row = async () =>
    (await transaction(pool, [clientId], (tx) => pageOfRows(tx, importRows({ import_id: id }), reading, { limit: 1 })))
      .rows[0]!;
  const stopped = async () => {
    const began = performance.now();
    await importer.stop();
    return performance.now() - began;
  };
  return { id, row, read: () => read, stopped };
};
const WHOLE = MOST_BYTES / PART_BYTES;
const SHA256 = "0".repeat(64);

describe.each([
  ["is hashed", undefined],
  ["is looked through for rows", SHA256],
])("while a file of 5 GiB of line feeds %s", (_, sha256) => {
  const file: File = { parts: WHOLE, piece: feeds, ...(sha256 !== undefined && { sha256 }) };
  test("a cancel ends it within two seconds", async () => {
    const { id, row, read, stopped } = await atWork(file);
    await until("it is read", 30_000, () => expect(read()).toBeGreaterThan(3));
    await transaction(pool, [clientId], (tx) => cancelWithin(tx, { import_id: id, client_id: clientId }));
    await until("it has ended", 2_000, async () => expect((await row()).status).toBe("cancelled"));
    expect(await row()).toMatchObject({ total: 0, error: null });
    expect(read()).toBeLessThan(WHOLE);
    await stopped();
  });
  test("a stop ends its process within two seconds, and leaves it to the next one", async () => {
    const { row, read, stopped } = await atWork(file);
    await until("it is read", 30_000, () => expect(read()).toBeGreaterThan(3));
    expect(await stopped()).toBeLessThan(2_000);
    expect((await row()).status).toBe("queued");
    await transaction(pool, null, (tx) => tx.query("delete from imports where status = 'queued'"), {
      role: "tributary_keeper",
    });
  });
});

test("blank lines are counted beside the rows, at the head, between rows and at the end", async () => {
  const now = new Date().toISOString();
  const text = `\n${HEAD}\r\nA-1,1.50,p,1,${now}\n\n\nA-2,,p,1,${now}\n\n`;
  const { row, stopped } = await atWork({ parts: 1, piece: () => Buffer.from(text) });
  await until("it has ended", 10_000, async () => expect((await row()).status).toBe("completed_with_errors"));
  expect(await row()).toMatchObject({ total: 2, accepted: 1, rejected: 1, blank_lines: 5 });
  await stopped();
});

const names = ["order_id", "revenue", "product_id", "quantity", "ts"];
const farBelow = {
  sha256: SHA256,
  checkpoint: {
    next: { offset: 0, line: 2 ** 32, blank: 2 ** 32 },
    ...{ delimiter: ",", columns: names, ours: { names, hasDecimalComma: false } },
  },
};
test("a row behind line 2,147,483,647 is refused, and ends the import", async () => {
  const { row, stopped } = await atWork({
    ...farBelow,
    ...{ parts: 1, piece: () => Buffer.from(`A-1,1.50,p,1,${new Date().toISOString()}\n`) },
  });
  await until("it has ended", 10_000, async () => expect((await row()).status).toBe("failed"));
  expect(await row()).toMatchObject({ total: 0, blank_lines: 2 ** 32 });
  expect((await row()).error).toContain("below line 2147483647");
  await stopped();
});

test("an import that stands behind that line is cancelled like any other", async () => {
  const { id, row, read, stopped } = await atWork({ ...farBelow, parts: WHOLE, piece: () => feeds(1) });
  await until("it is read", 30_000, () => expect(read()).toBeGreaterThan(3));
  await transaction(pool, [clientId], (tx) => cancelWithin(tx, { import_id: id, client_id: clientId }));
  await until("it has ended", 2_000, async () => expect((await row()).status).toBe("cancelled"));
  await stopped();
});
