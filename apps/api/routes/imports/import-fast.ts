// The route of a few rows: a small file, and the answer waits for its import.
import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { orUnavailable } from "../../../../infra/http/problem.ts";
import { pageOfRows } from "../../../../infra/postgres/rows.ts";
import { sql } from "../../../../infra/postgres/sql.ts";
import { openClient } from "../../../../modules/catalog/clients/open-client.ts";
import { partnerArchived } from "../../../../modules/catalog/partners/open-partner.ts";
import { readPartner } from "../../../../modules/catalog/partners/partner-reads.ts";
import { type RejectedRow, rejectedRows, storeFile } from "../../../../modules/intake/imports/import-file.ts";
import { importRows } from "../../../../modules/intake/imports/import-reads.ts";
import { queueUpload } from "../../../../modules/intake/imports/imports.ts";
import { purchaseColumns, uploadColumns } from "../../../../processors/admit/upload/csv-row.ts";
import { importFast } from "../../contract/imports/imports.ts";
import { notFound } from "../../request/accept.ts";
import { type ApiPorts, type Ask, type Reply, type Route, route, type Work } from "../../route.ts";

type Fast = Ask<typeof importFast>;
type Body = Fast["body"];

const WAIT_MS = 8_000;
const LOOK_MS = 150;
const COUNTS = ["status", "total", "accepted", "duplicate", "rejected"] as const;

export const routes = ({ pool, objects }: Pick<ApiPorts, "pool" | "objects">): readonly Route[] => [
  route(importFast, async (ask) => {
    const { body } = ask;
    const begun = await ask.write((work) => begin(work, ask));
    // As it was first answered, where this is a repeat.
    const { import_id: importId } = JSON.parse(begun.text!) as { readonly import_id: string };
    const waiting = await rowOf(ask, importId);
    // Also of a repeat, where the first one died before its file was there.
    if (waiting.status === "pending_upload") {
      const file = await storeFile(objects, importId, Readable.from([csvOf(body)]), false).catch(
        orUnavailable("files cannot be stored now", 5),
      );
      await queueUpload(pool, importId, body.client_id, file);
    }
    const row = await endOf(ask, importId);
    const errors: Pick<RejectedRow, "line" | "column" | "code" | "message">[] = [];
    for await (const some of rejectedRows(objects, importId))
      errors.push(...some.map(({ line, column, code, message }) => ({ line: line - 1, column, code, message })));
    return { body: { ...row, import_id: importId, errors } };
  }),
];

const begin = async (work: Work, { body, user }: Pick<Fast, "body" | "user">): Promise<Reply> => {
  const { tx, scope, audit } = work;
  const { client_id, partner_id, rows } = body;
  await openClient(work, client_id);
  const partner = await readPartner(tx, partner_id, scope.clients, []);
  if (!partner?.state.client_ids.includes(client_id)) throw notFound();
  if (partner.state.status === "archived") throw partnerArchived();
  const import_id = `imp_${randomUUID()}`;
  await tx.query(sql`
    insert into imports (import_id, client_id, partner_id, filename, source, status, created_by)
    values (${import_id}, ${client_id}, ${partner_id}, 'rows.csv', 'fast', 'pending_upload', ${user.email})`);
  const after = { partner_id, rows: rows.length };
  await audit({ action: "import.created", client_id, entity: `import:${import_id}`, after });
  return { body: { import_id, status: "queued", total: 0, accepted: 0, duplicate: 0, rejected: 0, errors: [] } };
};

/** Each row is answered for itself: a column that all of them lack is missing in each. */
const csvOf = ({ rows }: Body): Buffer => {
  const names = uploadColumns.filter(
    (name) => purchaseColumns.includes(name) || rows.some((row) => row[name] !== undefined),
  );
  const lines = rows.map((row) => names.map((name) => `"${String(row[name] ?? "").replaceAll('"', '""')}"`).join(","));
  return Buffer.from(`${names.join(",")}\n${lines.join("\n")}\n`);
};

const rowOf = ({ read }: Fast, importId: string) =>
  read(async (tx, { clients }) => {
    const reading = { names: COUNTS, sort: "created_at", clients };
    return (await pageOfRows(tx, importRows({ import_id: importId }), reading, { limit: 1 })).rows[0]!;
  });

const endOf = async (ask: Fast, importId: string) => {
  const until = performance.now() + WAIT_MS;
  for (;;) {
    const row = await rowOf(ask, importId);
    const isOpen = ["pending_upload", "queued", "processing"].includes(row.status as string);
    if (!isOpen || performance.now() > until) return row;
    await sleep(LOOK_MS);
  }
};
