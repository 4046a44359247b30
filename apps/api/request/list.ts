// Answers a list: a page with a signed cursor, or all rows as a CSV file that is streamed from one
// snapshot.
import type { Response } from "express";
import { z } from "zod";
import { dayOf } from "../../../domain/calendar.ts";
import { csvLine } from "../../../infra/http/csv.ts";
import { unavailable } from "../../../infra/http/problem.ts";
import { everyRow, type PageKey, pageOfRows, type RowsQuery, type RowsReading } from "../../../infra/postgres/rows.ts";
import { tenantsOf } from "../../../modules/access/scope.ts";
import { invalid } from "../../../modules/base/refusal.ts";
import { answerOf, fieldsOf } from "../contract/contract.ts";
import type { Ask, Complete, More, Reply } from "../route.ts";
import type { AskPorts, CheckedRequest } from "./checked-request.ts";
import { csvWriter } from "./csv-file.ts";
import { cursorText, listKey, readCursor } from "./cursor.ts";

interface Source {
  readonly rows: RowsQuery;
  readonly complete: Complete;
  readonly more: More;
}
interface ListQuery {
  readonly sort: string;
  readonly limit: number;
  readonly cursor?: string;
  readonly format?: "json" | "csv";
  readonly client_id?: number;
  readonly from?: string;
  readonly to?: string;
}

export const listReply = (ports: AskPorts, arrived: CheckedRequest, ask: Ask, source: Source): Promise<Reply> =>
  wantsCsv(arrived, ask.query as ListQuery)
    ? csvReply(ports, arrived, ask, source)
    : pageReply(ports, arrived, ask, source);

type ListRequest = Pick<Ask, "params" | "query">;
const keyOf = ({ route }: CheckedRequest, { params, query }: ListRequest): string =>
  listKey(route.contract.route, params, query as object);

/**
 * The row after which the page begins; undefined: it begins with the first row. Throws Problem 400
 * `bad_cursor`, which a request gets before any refusal about a row.
 */
export const behindOf = (
  { cursorKeys }: AskPorts,
  arrived: CheckedRequest,
  asked: ListRequest,
): PageKey | undefined => {
  const { cursor } = asked.query as ListQuery;
  return cursor === undefined ? undefined : readCursor(cursorKeys, keyOf(arrived, asked), cursor);
};

const pageReply = async (
  ports: AskPorts,
  arrived: CheckedRequest,
  ask: Ask,
  { rows, complete, more }: Source,
): Promise<Reply> => {
  const { sort, limit } = ask.query as ListQuery;
  const behind = behindOf(ports, arrived, ask);
  const page = await ask.read(async (tx, scope) => {
    const reading: RowsReading = { names: ask.fields, sort, clients: tenantsOf(scope) };
    const { rows: found, next } = await pageOfRows(tx, rows, reading, { behind, limit });
    const data = await complete(found, scope, { tx, isFile: false });
    return { data, next, beside: await more(tx, scope) };
  });
  const { data, next, beside } = page;
  const next_cursor = next === null ? null : cursorText(ports.cursorKeys, keyOf(arrived, ask), next);
  return { body: { data, has_more: next !== null, next_cursor, ...beside } };
};

const wantsCsv = ({ route, request }: CheckedRequest, { format }: ListQuery): boolean => {
  const isCsv =
    route.contract.list?.csv !== undefined &&
    (format === "csv" || (format === undefined && request.accepts(["application/json", "text/csv"]) === "text/csv"));
  for (const name of isCsv ? ["limit", "cursor"] : [])
    if (request.query[name] !== undefined) throw invalid(`/${name}`, "unknown_field", "a CSV file holds every row");
  return isCsv;
};

/** A file that is read slowly holds a connection to Postgres, and the pool has only a few. */
const MOST_FILES = 3;
const csvReply = async (
  { files }: AskPorts,
  { route }: CheckedRequest,
  ask: Ask,
  { rows, complete }: Source,
): Promise<Reply> => {
  const csv = route.contract.list!.csv!;
  const names = Object.keys(csv.columns).filter((name) => fieldsOf(route.contract, ask.role).includes(name));
  const kinds = names.map((name) => csv.columns[name]!);
  const shape = onlyOf(answerOf(route.contract.list!.rows, ask.role), names);
  const query = ask.query as ListQuery;
  const send = async (response: Response): Promise<void> => {
    if (files.underWay >= MOST_FILES) throw unavailable("too many files are being written: ask again", 5);
    files.underWay += 1;
    try {
      await ask.read(async (tx, scope) => {
        const file = csvWriter(response, { filename: fileName(csv.file, query), columns: names });
        const reading: RowsReading = { names, sort: query.sort, clients: tenantsOf(scope) };
        for await (const some of everyRow(tx, rows, reading)) {
          const sent = (await complete(some, scope, { tx, isFile: true })).map((row) => shape.parse(row) as typeof row);
          const lines = sent.map((row) => names.map((name) => row[name]));
          await file.put(lines.map((line) => csvLine(line, kinds)).join(""));
        }
        await file.end();
      });
    } finally {
      files.underWay -= 1;
    }
  };
  return { send };
};

/** The shape of a row with only these fields. */
const onlyOf = (shape: z.ZodType, names: readonly string[]): z.ZodType =>
  shape instanceof z.ZodObject ? shape.pick(Object.fromEntries(names.map((name) => [name, true])) as never) : shape;

/** <what>-<client>-<from>-<to>.csv, with "all" for a filter that is not set. */
const fileName = (file: string, { client_id, from, to }: ListQuery): string =>
  [file, client_id ?? "all", from ?? "all", to ?? dayOf(Date.now())].join("-") + ".csv";
