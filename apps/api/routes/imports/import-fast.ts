// The route that imports a few rows and waits for the result.
import { orUnavailable } from "../../../../infra/runtime/errors.ts";
import { rowInScope } from "../../../../modules/access/scope.ts";
import type { ScopedRead } from "../../../../modules/base/work.ts";
import { beginRows } from "../../../../modules/intake/imports/begin.ts";
import { rejectionsOf, storeRows } from "../../../../modules/intake/imports/fast-rows.ts";
import { importRows } from "../../../../modules/intake/imports/import-reads.ts";
import type { ImportState } from "../../../../modules/intake/imports/import-state.ts";
import { whenEnded } from "../../../../modules/intake/imports/when-ended.ts";
import { importFast } from "../../contract/imports/imports.ts";
import { firstAnswer } from "../../request/write.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

const WAIT_MS = 8_000;
const COUNTS = ["status", "total", "accepted", "duplicate", "rejected"] as const;
const NONE = { status: "queued", total: 0, accepted: 0, duplicate: 0, rejected: 0, errors: [] };
const notStored = orUnavailable("files cannot be stored now", 5);

export const routes = ({ pool, objects }: Pick<ApiPorts, "pool" | "objects">): readonly Route[] => [
  route(importFast, async ({ write, read, body: { rows, ...sender } }) => {
    const begun = await write(
      (work) => beginRows(work, sender, rows.length),
      (import_id) => ({ body: { import_id, ...NONE } }),
    );
    const { import_id } = firstAnswer<{ readonly import_id: string }>(begun);
    const look = () => rowOf(read, import_id);
    // A repeat stores the file too, because the first request may have died before that.
    if ((await look()).status === "pending_upload")
      await storeRows({ pool, objects }, { import_id, client_id: sender.client_id, rows }).catch(notStored);
    const row = await whenEnded(look, WAIT_MS);
    return { body: { ...row, import_id, errors: await rejectionsOf(objects, import_id) } };
  }),
];

const rowOf = (read: ScopedRead, import_id: string) =>
  read(async (tx, scope) => {
    const row = await rowInScope(tx, importRows({ import_id }), scope, COUNTS);
    return row as { readonly status: ImportState };
  });
