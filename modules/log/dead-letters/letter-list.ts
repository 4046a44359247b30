// Lists dead letters for the platform API, unreadable ones included.

import type { LetterKind } from "../../../edges/dead-letters.ts";
import type { RowsQuery } from "../../../infra/postgres/rows.ts";
import { type Sql, sql } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { LetterState } from "./letter.ts";

export interface ListedLetters {
  readonly kind?: LetterKind | undefined;
  readonly state?: LetterState | undefined;
  readonly stage?: string | undefined;
  readonly code?: string | undefined;
  readonly client_id?: number | undefined;
  /** Range of the last failure: `from` inclusive, `to` exclusive. */
  readonly failed?: { readonly from: UnixMs; readonly to: UnixMs };
}

const place = (name: "source" | "kept"): Sql => ({
  text: `json_build_object('topic', ${name}_topic, 'partition', ${name}_partition, 'offset', ${name}_offset)`,
  values: [],
});

/** Dead letters are the operator's data, so only administrators may list them. */
export const letterRows = ({ kind, state, stage, code, client_id, failed }: ListedLetters): RowsQuery => {
  const given: readonly (Sql | undefined)[] = [
    kind === undefined ? undefined : sql`kind = ${kind}`,
    state === undefined ? undefined : sql`state = ${state}`,
    stage === undefined ? undefined : sql`stage = ${stage}`,
    code === undefined ? undefined : sql`code = ${code}`,
    client_id === undefined ? undefined : sql`client_id = ${client_id}`,
    failed && sql`last_failed_at >= ${new Date(failed.from)} and last_failed_at < ${new Date(failed.to)}`,
  ];
  return {
    columns: {
      id: sql`letter_id`,
      kind: sql`kind`,
      status: sql`state`,
      stage: sql`stage`,
      code: sql`code`,
      message: sql`message`,
      source: place("source"),
      kept: place("kept"),
      event_id: sql`event_id`,
      client_id: sql`client_id`,
      attempts: sql`attempts`,
      first_failed_at: sql`first_failed_at`,
      last_failed_at: sql`last_failed_at`,
      next_try_at: sql`next_attempt_at`,
      sent_at: sql`sent_at`,
      closed_at: sql`closed_at`,
      closed_by: sql`closed_by`,
      close_reason: sql`close_reason`,
    },
    from: sql`dead_letters`,
    role: "tributary_keeper",
    tenant: sql`0`,
    where: given.filter((part): part is Sql => part !== undefined),
    sorts: {
      last_failed_at: { by: sql`last_failed_at`, type: "timestamptz" },
      first_failed_at: { by: sql`first_failed_at`, type: "timestamptz" },
      // Letters that are never sent again sort last.
      next_try_at: { by: sql`coalesce(next_attempt_at, 'infinity')`, type: "timestamptz" },
    },
    id: { by: sql`letter_id`, type: "text" },
  };
};
