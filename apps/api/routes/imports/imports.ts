// The routes of imports: list, progress, preview, rejected rows, cancel, undo and reset.

import type { Response } from "express";
import { csvLine } from "../../../../infra/http/csv.ts";
import { orUnavailable } from "../../../../infra/runtime/errors.ts";
import { rowInScope } from "../../../../modules/access/scope.ts";
import { spanOf } from "../../../../modules/base/days.ts";
import { missing } from "../../../../modules/base/refusal.ts";
import { cancelImport } from "../../../../modules/intake/imports/cancel.ts";
import { type ErasedSubjects, erasedSubjects, rowsShown } from "../../../../modules/intake/imports/erase-rejected.ts";
import * as imports from "../../../../modules/intake/imports/import-reads.ts";
import { previewOf } from "../../../../modules/intake/imports/preview.ts";
import { resetStuck } from "../../../../modules/intake/imports/reset-stuck.ts";
import { undoImport } from "../../../../modules/intake/imports/undo.ts";
import { whenEnded } from "../../../../modules/intake/imports/when-ended.ts";
import * as contracts from "../../contract/imports/imports.ts";
import { csvWriter } from "../../request/csv-file.ts";
import { type ApiPorts, type Ask, type Route, route } from "../../route.ts";

type Ports = Pick<ApiPorts, "objects" | "pool">;

/** The process that imports the file notices a cancel with its next batch. */
const CANCEL_MS = 3_000;

export const routes = ({ objects, pool }: Ports): readonly Route[] => [
  route(contracts.listImports, ({ list, query: { from, to, client_id, partner_id, status } }) =>
    list(
      imports.importRows({ client_id, partner_id, status, created: spanOf({ from, to }, Date.now()) }),
      async (rows) => rows.map(imports.withSums),
    ),
  ),

  route(contracts.readImport, ({ read, params, fields }) =>
    read(async (tx, scope) => {
      const row = await rowInScope(tx, imports.importRows({ import_id: params.id }), scope, fields);
      if (row === undefined) throw missing();
      return { body: imports.withSums(row) };
    }),
  ),

  route(contracts.readErrors, async (ask) => {
    const file = await fileToRead(ask, "import_errors.read");
    const erased = await erasedSubjects(pool, file.client_id).catch(orUnavailable("rows cannot be read now", 5));
    return { send: (response) => sendErrors({ objects }, response, file, erased) };
  }),

  route(contracts.previewImport, async (ask) => {
    const file = await fileToRead(ask, "import_preview.read");
    const preview = ask.read((tx) => previewOf(tx, objects, file, Date.now()));
    return { body: await preview.catch(orUnavailable("files cannot be read now", 5)) };
  }),

  route(contracts.cancelImport, async ({ write, read, params: { id } }) => {
    await write(
      (work) => cancelImport(work, id),
      () => ({ body: { import_id: id, status: "cancelled" } }),
    );
    const look = () => read(async (tx, { clients }) => (await imports.fileOfImport(tx, id, clients))!);
    const { status } = await whenEnded(look, CANCEL_MS);
    return { body: { import_id: id, status } };
  }),

  route(contracts.undoImport, ({ write, params, body: { reason } }) =>
    write(
      (work) => undoImport(work, { import_id: params.id, reason }),
      (job_id) => ({ body: { job_id } }),
    ),
  ),

  route(contracts.resetStuck, ({ write }) => write(resetStuck, reset)),
  route(contracts.resetStuckFormerly, ({ write }) =>
    write(resetStuck, (ids) => ({ ...reset(ids), headers: FORMERLY })),
  ),
];

/** Deprecation (RFC 9745) and sunset (RFC 8594) of the older path. */
const FORMERLY = {
  Deprecation: "@1767225600",
  Sunset: "Fri, 31 Dec 2027 23:59:59 GMT",
  Link: '</api/v3/imports/reset-stuck>; rel="successor-version"',
};

const reset = (import_ids: readonly string[]) => ({ body: { reset: import_ids.length, import_ids } });

/** Uses a write, because the audit records the read. */
const fileToRead = async (
  { write, params }: Ask<typeof contracts.previewImport>,
  action: Parameters<typeof imports.recordRead>[2],
): Promise<imports.FileOfImport> => {
  let file: imports.FileOfImport | undefined;
  await write(
    (work) => imports.recordRead(work, params.id, action),
    (found) => {
      file = found;
      return { text: "" };
    },
  );
  return file!;
};

const COLUMNS = ["line", "column", "code", "message", "row"] as const;
const KINDS = ["number", "text", "text", "text", "text"] as const;

const sendErrors = async (
  { objects }: Pick<Ports, "objects">,
  response: Response,
  { import_id, client_id }: imports.FileOfImport,
  erased: ErasedSubjects,
): Promise<void> => {
  const filename = `import-errors-${client_id}-${import_id}.csv`;
  const file = csvWriter(response, { filename, columns: COLUMNS });
  const lineOf = (row: Readonly<Record<(typeof COLUMNS)[number], unknown>>): string =>
    csvLine(
      COLUMNS.map((name) => row[name]),
      KINDS,
    );
  try {
    for await (const rows of rowsShown(objects, import_id, erased)) await file.put(rows.map(lineOf).join(""));
    await file.end();
  } catch (error) {
    if (response.headersSent) throw error;
    orUnavailable("rejected rows cannot be read now", 5)(error);
  }
};
