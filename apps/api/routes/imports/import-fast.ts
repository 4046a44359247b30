// The route of a few rows: a small file, and the answer waits for its import.
import { orUnavailable } from "../../../../infra/http/problem.ts";
import { rowInScope } from "../../../../modules/access/scope.ts";
import { beginRows } from "../../../../modules/intake/imports/begin.ts";
import { rejectionsOf, storeRows } from "../../../../modules/intake/imports/fast-rows.ts";
import { importRows } from "../../../../modules/intake/imports/import-reads.ts";
import type { ImportState } from "../../../../modules/intake/imports/import-state.ts";
import { whenEnded } from "../../../../modules/intake/imports/when-ended.ts";
import { importFast } from "../../contract/imports/imports.ts";
import { type ApiPorts, type Ask, type Route, route } from "../../route.ts";

const WAIT_MS = 8_000;
const COUNTS = ["status", "total", "accepted", "duplicate", "rejected"] as const;
const NONE = { status: "queued", total: 0, accepted: 0, duplicate: 0, rejected: 0, errors: [] };

export const routes = ({ pool, objects }: Pick<ApiPorts, "pool" | "objects">): readonly Route[] => [
  route(importFast, async ({ write, read, body: { rows, ...sender } }) => {
    const begun = await write(
      (work) => beginRows(work, sender, rows.length),
      (import_id) => ({ body: { import_id, ...NONE } }),
    );
    // As it was first answered, where this is a repeat.
    const { import_id } = JSON.parse(begun.text!) as { readonly import_id: string };
    const look = () => rowOf(read, import_id);
    // Also of a repeat, where the first one died before its file was there.
    if ((await look()).status === "pending_upload")
      await storeRows({ pool, objects }, { import_id, client_id: sender.client_id, rows }).catch(
        orUnavailable("files cannot be stored now", 5),
      );
    const row = await whenEnded(look, WAIT_MS);
    return { body: { ...row, import_id, errors: await rejectionsOf(objects, import_id) } };
  }),
];

const rowOf = (read: Ask["read"], import_id: string) =>
  read(async (tx, scope) => {
    const row = await rowInScope(tx, importRows({ import_id }), scope, COUNTS);
    return row as { readonly status: ImportState };
  });
