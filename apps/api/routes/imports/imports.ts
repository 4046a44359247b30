// The routes of imports: lists, progress, previews, rejected rows, and their end.
import { setTimeout as sleep } from "node:timers/promises";
import type { Response } from "express";
import { BOM, csvLine } from "../../../../infra/http/csv.ts";
import { Aborted, orUnavailable, Problem } from "../../../../infra/http/problem.ts";
import { ObjectMissing } from "../../../../infra/objects/objects.ts";
import { pageOfRows } from "../../../../infra/postgres/rows.ts";
import { BadFile } from "../../../../modules/intake/imports/csv-head.ts";
import { type ErasedSubjects, erasedSubjects, isOfErased } from "../../../../modules/intake/imports/erase-rejected.ts";
import { rejectedRows } from "../../../../modules/intake/imports/import-file.ts";
import * as imports from "../../../../modules/intake/imports/import-reads.ts";
import { previewOf } from "../../../../modules/intake/imports/preview.ts";
import { askForUndo } from "../../../../modules/intake/imports/undo-result.ts";
import * as contracts from "../../contract/imports/imports.ts";
import { notFound } from "../../request/accept.ts";
import { spanOf } from "../../request/range.ts";
import { type ApiPorts, type Ask, type Reply, type Route, route, type Work } from "../../route.ts";

type Ports = Pick<ApiPorts, "objects" | "pool">;

export const routes = ({ objects, pool }: Ports): readonly Route[] => [
  route(contracts.listImports, ({ list, query: { from, to, client_id, partner_id, status } }) =>
    list(
      imports.importRows({ client_id, partner_id, status, created: spanOf({ from, to }, Date.now()) }),
      async (rows) => rows.map(imports.withSums),
    ),
  ),
  route(contracts.readImport, async (ask) => ({ body: await shownImport(ask, ask.params.id) })),
  route(contracts.readErrors, async (ask) => {
    const { import_id, client_id } = await audited(ask, "import_errors.read");
    const erased = await erasedSubjects(pool, client_id).catch(orUnavailable("rows cannot be read now", 5));
    return { send: (response) => sendErrors({ objects }, response, { import_id, client_id, erased }) };
  }),
  route(contracts.previewImport, async (ask) => {
    const file = await audited(ask, "import_preview.read");
    if (file.status === "pending_upload" && file.parts === null)
      throw conflict("not_uploaded", "the file is not there yet");
    if (!imports.cancellable.includes(file.status) || file.parts === null)
      throw conflict("file_removed", "the import has ended, its file is gone");
    const body = await ask
      .read((tx) => previewOf(tx, objects, file, Date.now()))
      .catch((error: unknown) => {
        if (error instanceof BadFile) throw conflict("unreadable_file", error.message);
        if (error instanceof ObjectMissing) throw conflict("file_removed", "the import has ended, its file is gone");
        return orUnavailable("files cannot be read now", 5)(error);
      });
    return { body };
  }),
  route(contracts.cancelImport, async (ask) => {
    await ask.write((work) => cancel(work, ask.params.id));
    return { body: await endOf(ask, ask.params.id) };
  }),
  route(contracts.undoImport, (ask) => ask.write((work) => undo(work, ask))),
  route(contracts.resetStuck, (ask) => ask.write(reset)),
  route(contracts.resetStuckFormerly, (ask) =>
    ask.write(async (work) => ({ ...(await reset(work)), headers: FORMERLY })),
  ),
];

/** RFC 9745 and RFC 8594: since when, until when, and what comes instead. */
const FORMERLY = {
  Deprecation: "@1767225600",
  Sunset: "Fri, 31 Dec 2027 23:59:59 GMT",
  Link: '</api/v3/imports/reset-stuck>; rel="successor-version"',
};

const conflict = (code: string, detail: string): Problem => new Problem("conflict", detail, { code });

/** Throws Problem 404. */
const shownImport = ({ read, fields }: Ask, importId: string) =>
  read(async (tx, { clients }) => {
    const reading = { names: fields, sort: "created_at", clients };
    const { rows } = await pageOfRows(tx, imports.importRows({ import_id: importId }), reading, { limit: 1 });
    if (rows[0] === undefined) throw notFound();
    return imports.withSums(rows[0]);
  });

/** What rows hold may be personal: who reads them is written down. Throws Problem 404. */
const audited = async (ask: Ask<typeof contracts.previewImport>, action: string): Promise<imports.FileOfImport> => {
  let file: imports.FileOfImport | undefined;
  await ask.write(async ({ tx, scope, audit }) => {
    file = await imports.fileOfImport(tx, ask.params.id, scope.clients);
    if (file === undefined) throw notFound();
    await audit({ action, client_id: file.client_id, entity: `import:${file.import_id}` });
    return { text: "" };
  });
  return file!;
};

const NAMES = ["line", "column", "code", "message", "row"] as const;
const KINDS = ["number", "text", "text", "text", "text"] as const;

const sendErrors = async (
  { objects }: Pick<Ports, "objects">,
  response: Response,
  { import_id, client_id, erased }: Pick<imports.FileOfImport, "import_id" | "client_id"> & { erased: ErasedSubjects },
): Promise<void> => {
  let text =
    BOM +
    csvLine(
      NAMES,
      NAMES.map(() => "text"),
    );
  const put = async (): Promise<void> => {
    if (response.destroyed) throw new Aborted("the reader went away");
    if (!response.headersSent)
      response.status(200).set({
        "Content-Type": "text/csv; charset=utf-8",
        "Content-Disposition": `attachment; filename="import-errors-${client_id}-${import_id}.csv"`,
      });
    const isTaken = response.write(text);
    text = "";
    if (!isTaken) await new Promise((resolve) => response.once("drain", resolve).once("close", resolve));
  };
  try {
    for await (const rows of rejectedRows(objects, import_id)) {
      // Those of people who were erased go with the importer's next round.
      for (const row of rows.filter((one) => !isOfErased(one, erased)))
        text += csvLine(
          NAMES.map((name) => row[name]),
          KINDS,
        );
      await put();
    }
    await put();
  } catch (error) {
    if (response.headersSent) throw error;
    return orUnavailable("rejected rows cannot be read now", 5)(error);
  }
  response.end();
};

const cancel = async ({ tx, scope, audit }: Work, importId: string): Promise<Reply> => {
  const file = await imports.fileOfImport(tx, importId, scope.clients, "for update");
  if (file === undefined) throw notFound();
  if (!imports.cancellable.includes(file.status))
    throw new Problem("conflict", `an import that is ${file.status} cannot be cancelled`, {
      code: "invalid_transition",
      members: { from: file.status, to: "cancelled", allowed: [] },
    });
  await imports.cancelImport(tx, file);
  const { client_id, status } = file;
  await audit({ action: "import.cancelled", client_id, entity: `import:${importId}`, before: { status } });
  return { body: { import_id: importId, status } };
};

/** The process that works on it sees it with its next batch. */
const WAIT_MS = 3_000;
const LOOK_MS = 100;

const endOf = async ({ read }: Ask, importId: string) => {
  const until = performance.now() + WAIT_MS;
  for (;;) {
    const { status } = await read(async (tx, { clients }) => (await imports.fileOfImport(tx, importId, clients))!);
    if (!imports.cancellable.includes(status) || performance.now() > until) return { import_id: importId, status };
    await sleep(LOOK_MS);
  }
};

const undo = async (
  { tx, scope, audit }: Work,
  { params, body: { reason }, user }: Pick<Ask<typeof contracts.undoImport>, "params" | "body" | "user">,
): Promise<Reply> => {
  const file = await imports.fileOfImport(tx, params.id, scope.clients, "for update");
  if (file === undefined) throw notFound();
  const asked = await askForUndo(tx, file, { reason, created_by: user.email });
  if (asked.kind === "not_ended") throw conflict("not_ended", "an import is undone when it has ended: cancel it first");
  const { job_id } = asked;
  if (asked.kind === "already_undone")
    throw new Problem("conflict", "this import is undone", { code: "already_undone", members: { job_id } });
  const { client_id, import_id } = file;
  if (asked.isNew)
    await audit({ action: "import.undone", client_id, entity: `import:${import_id}`, after: { job_id, reason } });
  return { body: { job_id } };
};

const reset = async ({ tx, scope, audit }: Work): Promise<Reply> => {
  const import_ids = await imports.resetStuck(tx, scope.clients);
  for (const importId of import_ids) {
    const { client_id } = (await imports.fileOfImport(tx, importId, scope.clients))!;
    await audit({ action: "import.reset", client_id, entity: `import:${importId}` });
  }
  return { body: { reset: import_ids.length, import_ids } };
};
