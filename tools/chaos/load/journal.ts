// Writes each request to the disk before it is sent, and its outcome afterwards: the only record
// that no fault can damage.
import { createHash } from "node:crypto";
import { closeSync, fdatasyncSync, openSync, readFileSync, writeSync } from "node:fs";

/** `unknown`: there was no answer, so the request may be stored or not (the Jepsen rule). */
type Outcome = "ok" | "fail" | "unknown";

/** The answer to one request: how many events were accepted and refused. */
interface RequestResult {
  readonly submitted: number;
  readonly accepted: number;
  readonly rejected: number;
  /** Number of entries in `errors`. */
  readonly errors: number;
}
export interface Ending {
  readonly outcome: Outcome;
  /** Ids of the refused events of an `ok` request. */
  readonly refused?: readonly string[];
  readonly said?: RequestResult;
}
export interface Journal {
  readonly file: string;
  /** Returns once the record is synced to the disk; only then may the request be sent. */
  readonly intend: (op: string, body: string, ids: readonly string[]) => void;
  readonly end: (op: string, ending: Ending) => void;
  /** The best outcome of each event over all requests that held it. */
  readonly outcomes: () => ReadonlyMap<string, Outcome>;
  readonly answers: () => readonly RequestResult[];
  readonly close: () => void;
}

interface Line {
  readonly op: string;
  readonly ids?: readonly string[];
  readonly outcome?: Outcome;
  readonly refused?: readonly string[];
  readonly said?: RequestResult;
}

const strength: Readonly<Record<Outcome, number>> = { fail: 0, unknown: 1, ok: 2 };

/**
 * Opens a journal and reads the records of an earlier run; an operation without an ending is
 * `unknown`.
 */
export const openJournal = (file: string): Journal => {
  const fd = openSync(file, "a+");
  const open = new Map<string, readonly string[]>();
  const outcomes = new Map<string, Outcome>();
  const answers: RequestResult[] = [];
  const learn = (id: string, outcome: Outcome): void => {
    const before = outcomes.get(id);
    if (before === undefined || strength[outcome] > strength[before]) outcomes.set(id, outcome);
  };
  const take = ({ op, ids, outcome, refused = [], said }: Line): void => {
    if (ids !== undefined) open.set(op, ids);
    if (outcome === undefined) return;
    const refusedIds = new Set(refused);
    for (const id of open.get(op) ?? []) learn(id, refusedIds.has(id) ? "fail" : outcome);
    open.delete(op);
    if (said !== undefined) answers.push(said);
  };
  for (const line of readFileSync(file, "utf8").split("\n")) if (line !== "") take(JSON.parse(line) as Line);
  const write = (line: Line & { readonly hash?: string }): void => {
    writeSync(fd, `${JSON.stringify(line)}\n`);
    fdatasyncSync(fd);
    take(line);
  };
  return {
    file,
    intend: (op, body, ids) => write({ op, hash: createHash("sha256").update(body).digest("hex"), ids }),
    end: (op, ending) => write({ op, ...ending }),
    outcomes: () => {
      const all = new Map(outcomes);
      for (const ids of open.values()) for (const id of ids) if (all.get(id) !== "ok") all.set(id, "unknown");
      return all;
    },
    answers: () => answers,
    close: () => closeSync(fd),
  };
};
