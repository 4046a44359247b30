// The contract of a route: the shapes of its request, without unknown fields, and a shape of the
// answer for each role. Handlers, openapi.json and tests read the same object.
import { z } from "zod";
import { type Role, roles } from "../../../modules/access/users/users.ts";
import { choice, isNumeric } from "./fields.ts";

/** One shape for all roles, or one for each; a role that is not named has that of admin. */
export type Answers = z.ZodType | ({ readonly admin: z.ZodType } & Readonly<Partial<Record<Role, z.ZodType>>>);

export interface Contract<
  Params extends z.ZodType = z.ZodType,
  Query extends z.ZodType = z.ZodType,
  Body extends z.ZodType = z.ZodType,
> {
  /** Method and path of its row in apps/api/routes.yaml, e.g. "GET /api/clients/:id". */
  readonly route: string;
  readonly summary: string;
  readonly params: Params;
  readonly query: Query;
  readonly body: Body;
  readonly answers: Answers;
  readonly status: 200 | 201 | 202 | 204;
  /** A second status of success with the same shape, e.g. 200 where the row existed before. */
  readonly otherStatus?: 200 | 202;
  /** The shape of a list: its rows by role, its sorts, and its CSV file. */
  readonly list?: ListShape;
  /** The route honours `Idempotency-Key`. */
  readonly isIdempotent: boolean;
  /** Codes of 409, for the documentation. */
  readonly conflicts: readonly string[];
  /**
   * Acts at every client of a partner: a caller who lacks one of them is answered 403
   * `shared_partner`. In words what does so, e.g. `all fields but client_ids`.
   */
  readonly needsWholePartner?: string;
  /**
   * The most keys of all objects of the body plus items of its lists; undefined for the usual
   * limit.
   */
  readonly mostKeys?: number;
  /** The lower limit of requests holds, as for simulations and exports. */
  readonly isHeavy: boolean;
  /**
   * It reads figures of any length of time: a user has two such requests at once, and they use
   * connections of their own, as heavy ones do.
   */
  readonly readsFigures: boolean;
}

interface ListShape {
  readonly rows: Answers;
  /** The first one is the default; a leading `-` means descending. */
  readonly sorts: readonly string[];
  /** Filters that a role may not use, because they reveal fields that it may not see. */
  readonly without: Readonly<Partial<Record<Role, readonly string[]>>>;
  readonly csv?: CsvShape;
}
interface CsvShape {
  /** The name of the file, without client, days and ending. */
  readonly file: string;
  /** Fields of the row, in the order of columns; numbers stay bare. */
  readonly columns: Readonly<Record<string, "text" | "number">>;
}
/** A CSV file as a list declares it: `columns` are names of row fields, split by spaces. */
interface CsvInput {
  readonly file: string;
  readonly columns: string;
}

/** `mostKeys` of bodies with hundreds of items. */
export const MANY_KEYS = 20_000;

const nothing = z.strictObject({});
/** The body may be left out, or be an empty object. */
const emptyBody = nothing.optional();

type ContractInput<Params extends z.ZodType, Query extends z.ZodType, Body extends z.ZodType> = Pick<
  Contract,
  "route" | "summary"
> &
  Partial<
    Pick<
      Contract,
      | "answers"
      | "status"
      | "otherStatus"
      | "isIdempotent"
      | "conflicts"
      | "needsWholePartner"
      | "isHeavy"
      | "readsFigures"
      | "mostKeys"
    >
  > & {
    readonly params?: Params;
    readonly query?: Query;
    readonly body?: Body;
  };

/** Makes the contract of a route. Parts that are left out are empty; without answers it is 204. */
export const contract = <
  Params extends z.ZodType = typeof nothing,
  Query extends z.ZodType = typeof nothing,
  Body extends z.ZodType = typeof emptyBody,
>(
  given: ContractInput<Params, Query, Body>,
): Contract<Params, Query, Body> => ({
  answers: z.null(),
  status: given.answers === undefined ? 204 : 200,
  isIdempotent: false,
  conflicts: [],
  isHeavy: false,
  readsFigures: false,
  ...given,
  params: given.params ?? (nothing as never),
  query: given.query ?? (nothing as never),
  body: given.body ?? (emptyBody as never),
});

const page = {
  limit: z
    .codec(z.string().regex(/^\d{1,3}$/, "give a whole number"), z.int().min(1).max(100), {
      decode: Number,
      encode: String,
    })
    .default(50),
  cursor: z.string().min(1).max(2_000).optional(),
};

/** Makes the contract of a list: filters, `sort`, `limit` and `cursor`, and pages of rows. */
export const listContract = <
  Params extends z.ZodType = typeof nothing,
  Filters extends z.ZodRawShape = Record<never, never>,
>(
  given: Pick<Contract, "route" | "summary"> & {
    readonly params?: Params;
    readonly filters?: Filters;
    /** Fields beside the rows of a page, e.g. sums over all rows. */
    readonly more?: z.ZodRawShape;
    readonly csv?: CsvInput;
  } & Omit<ListShape, "without" | "csv"> &
    Partial<Pick<ListShape, "without"> & Pick<Contract, "readsFigures">>,
) => {
  const { route, summary, params, filters = {} as Filters, rows, more = {}, sorts, without = {}, csv } = given;
  const { readsFigures = false } = given;
  const format = csv === undefined ? {} : { format: choice(["json", "csv"]).optional() };
  const query = z.strictObject({ ...filters, sort: sortBy(sorts, sorts[0]!), ...page, ...format });
  return {
    ...contract({
      route,
      summary,
      readsFigures,
      ...(params && { params }),
      query,
      answers: byRole(rows, (row) => pageOf(row, more)),
    }),
    list: { rows, sorts, without, ...(csv && { csv: csvOf(csv, rows) }) },
  };
};

const csvOf = ({ file, columns }: CsvInput, rows: Answers): CsvShape => {
  const { shape } = answerOf(rows, "admin") as z.ZodObject;
  const kindOf = (name: string): "text" | "number" => {
    if (shape[name] === undefined) throw new Error(`${file}: rows have no ${name}`);
    return isNumeric(shape[name]) ? "number" : "text";
  };
  return { file, columns: Object.fromEntries(columns.split(" ").map((name) => [name, kindOf(name)])) };
};

const sortBy = (sorts: readonly string[], usual: string) => choice(sorts).default(usual);

/** The shape of a page of such rows. */
const pageOf = (row: z.ZodType, more: z.ZodRawShape): z.ZodType =>
  z.object({ data: z.array(row), has_more: z.boolean(), next_cursor: z.string().nullable(), ...more });

/** Maps the shape of each role. */
const byRole = (answers: Answers, shape: (answer: z.ZodType) => z.ZodType): Answers =>
  answers instanceof z.ZodType
    ? shape(answers)
    : (Object.fromEntries(Object.entries(answers).map(([role, answer]) => [role, shape(answer)])) as Answers);

/** The shape of a role; callers without a role have that of admin. */
export const answerOf = (answers: Answers, role: Role | undefined): z.ZodType =>
  answers instanceof z.ZodType ? answers : ((role === undefined ? undefined : answers[role]) ?? answers.admin);

/** Names of the fields that a role may see, of an answer or of the rows of a list. */
export const fieldsOf = ({ answers, list }: Contract, role: Role | undefined): readonly string[] => {
  const shape = answerOf(list?.rows ?? answers, role);
  return shape instanceof z.ZodObject ? Object.keys(shape.shape) : [];
};

/** The queries of each contract by role: making one takes 200 us. */
const queries = new WeakMap<Contract, Map<Role | undefined, z.ZodType>>();

/**
 * The query as a role may send it: without filters and sorts by fields that it may not see, since
 * their result would reveal them.
 */
export const queryFor = (contract: Contract, role: Role | undefined): z.ZodType => {
  const ofRoles = queries.get(contract) ?? new Map<Role | undefined, z.ZodType>();
  const query = ofRoles.get(role) ?? openQuery(contract, role);
  queries.set(contract, ofRoles.set(role, query));
  return query;
};

const openQuery = (contract: Contract, role: Role | undefined): z.ZodType => {
  const { query, list } = contract;
  if (!(query instanceof z.ZodObject)) return query;
  const isOpen = (name: string): boolean => mayAsk(contract, role, name.replace(/^-/, ""));
  const [filters, sorts] = [Object.keys(query.shape).filter(isOpen), list?.sorts.filter(isOpen)];
  const isWhole = filters.length === Object.keys(query.shape).length && sorts?.length === list?.sorts.length;
  if (isWhole) return query;
  const open = query.pick(Object.fromEntries(filters.map((name) => [name, true])) as never);
  return sorts === undefined ? open : open.extend({ sort: sortBy(sorts, sorts[0]!) });
};

const mayAsk = (contract: Contract, role: Role | undefined, name: string): boolean => {
  if (role !== undefined && contract.list?.without[role]?.includes(name)) return false;
  const isOfRows = roles.some((one) => fieldsOf(contract, one).includes(name));
  return !isOfRows || fieldsOf(contract, role).includes(name);
};
