// The contracts of imports: files of rows with their progress and their rejected rows.
import { z } from "zod";
import { importStates } from "../../../../modules/intake/imports/import-state.ts";
import { uploadColumns } from "../../../../processors/admit/upload/csv-row.ts";
import { contract, listContract, MANY_KEYS } from "../contract.ts";
import { choice, currency, id, idText, maskedEmail, money, range, time, words } from "../fields.ts";

const status = choice(importStates);
const count = z.int();
const counts = { total: count, accepted: count, duplicate: count, rejected: count };
const row = z.object({
  ...{ id: z.string(), client_id: id, partner_id: id, filename: z.string() },
  ...{ source: choice(["put", "v3", "fast"]), status },
  ...counts,
  bytes: z.number().nullable().describe("of the file, inflated; null before all of it is there"),
  read_bytes: z.number().describe("of them, up to behind the last row that was counted"),
  blank_lines: z.number().describe("of the part that was read; no rows, and so in none of the counts"),
  ...{ file_revenue: money, stored_revenue: money, currency },
  other_currencies: z.array(z.object({ currency, file_revenue: money, stored_revenue: money })),
  same_file_as: z.string().nullable().describe("an import of the same bytes before it"),
  error: z.string().nullable(),
  ...{ created_by: z.string(), created_at: time, started_at: time.nullable(), finished_at: time.nullable() },
  ...{ heartbeat_at: time.nullable(), undone_at: time.nullable() },
});
const rows = { admin: row, viewer: row.extend({ created_by: maskedEmail }) };
const undone = z
  .object({
    ...{ job_id: z.string(), reason: z.string(), asked_by: z.string() },
    taken_back: count.describe("rows by which a partner was credited, and is no more"),
    uncredited: count.describe("no partner was credited"),
    copies: count.describe("rows of a sale that another row counts, or that others have reported"),
    decided: count.describe("a person has credited another partner since: that stands"),
    no_sale: count,
    not_stored: count.describe("it may be asked for again when they are"),
    sums: z.array(z.object({ currency, amount: money })).describe("what went back of partners"),
  })
  .nullable();
const more = {
  undone: undone.describe("counts are 0 until its job has ended"),
  mapping: z.record(z.string(), z.string()).nullable().describe("our columns to theirs"),
  error_codes: z.array(z.object({ code: z.string(), count })),
};
const importId = z.string().regex(/^imp_[0-9a-f-]{36}$/);
const ofImport = z.strictObject({ id: importId });
const rejection = { line: count, column: z.string().nullable(), code: z.string(), message: z.string() };

export const listImports = listContract({
  route: "GET /api/imports",
  summary: "Imports of the days asked for, the last 30 without any.",
  filters: { client_id: idText.optional(), partner_id: idText.optional(), status: status.optional(), ...range },
  rows,
  sorts: ["-created_at", "created_at"],
});
export const readImport = contract({
  route: "GET /api/imports/:id",
  summary: "One import: how far it is, its sums, and why rows were rejected.",
  params: ofImport,
  answers: {
    admin: row.extend(more),
    viewer: rows.viewer.extend({ ...more, undone: undone.unwrap().extend({ asked_by: maskedEmail }).nullable() }),
  },
});
export const readErrors = contract({
  route: "GET /api/imports/:id/errors",
  summary: "The rejected rows as CSV: line, column, code, message, row. Kept for 30 days; the read is audited.",
  params: ofImport,
  answers: z.string(),
  isHeavy: true,
});
export const previewImport = contract({
  route: "GET /api/imports/:id/preview",
  summary: "The first 100 rows as they would be imported; nothing is written. The read is audited.",
  params: ofImport,
  answers: z.object({
    columns: z.array(z.string()),
    mapping: z.record(z.string(), z.string()),
    rows: z.array(
      z.object({
        line: count,
        values: z.record(z.string(), z.string()),
        outcome: choice(["accepted", "duplicate", "rejected"]),
        errors: z.array(z.object({ column: z.string().nullable(), code: z.string(), message: z.string() })),
      }),
    ),
  }),
  conflicts: ["not_uploaded", "file_removed", "unreadable_file"],
  isHeavy: true,
});
export const cancelImport = contract({
  route: "POST /api/imports/:id/cancel",
  summary: "Ends an import. Rows that were sent stay, and are counted.",
  params: ofImport,
  answers: z.object({ import_id: z.string(), status }),
  conflicts: ["invalid_transition"],
});

export const undoImport = contract({
  route: "POST /api/imports/:id/undo",
  summary: "Withdraws what the rows of an import say of their orders, by decisions. Asked again: the same job.",
  params: ofImport,
  body: z.strictObject({ reason: words(500) }),
  answers: z.object({ job_id: z.string() }),
  status: 202,
  isIdempotent: true,
  conflicts: ["not_ended", "already_undone"],
});

const wasReset = z.object({ reset: count, import_ids: z.array(z.string()) });
export const resetStuck = contract({
  route: "POST /api/v3/imports/reset-stuck",
  summary: "Queues imports whose process has not been heard of for 15 minutes.",
  answers: wasReset,
});
export const resetStuckFormerly = contract({
  route: "POST /api/imports/reset-stuck",
  summary: "Deprecated: v3/imports/reset-stuck.",
  answers: wasReset,
});

const cell = z.union([z.string().max(1_024), z.number()]).optional();
export const importFast = contract({
  route: "POST /api/import/fast",
  summary: "Imports up to 1,000 rows, by the names of our columns, and answers what became of each.",
  body: z.strictObject({
    client_id: id,
    partner_id: id,
    rows: z
      .array(z.strictObject(Object.fromEntries(uploadColumns.map((name) => [name, cell]))))
      .min(1)
      .max(1_000),
  }),
  answers: z.object({
    ...{ import_id: z.string(), status: status.describe("queued or processing where it takes longer than the answer") },
    ...counts,
    errors: z.array(z.object(rejection)).describe("`line` is the place in `rows`, from 1"),
  }),
  isIdempotent: true,
  conflicts: ["client_archived", "partner_archived"],
  mostKeys: MANY_KEYS,
});
