// Describes the served routes as OpenAPI 3.1, from their contracts, the table of roles, and the
// answers that every route has.
import { createHash } from "node:crypto";
import { z } from "zod";
import type { Role } from "../../modules/access/users/users.ts";
import { answerOf, type Contract, fieldsOf } from "./contract/contract.ts";
import type { ServedRoute } from "./route.ts";

type Schema = Readonly<Record<string, any>>;
interface Parameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly required: boolean;
  readonly description?: string;
  readonly schema: Schema;
}
export interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly tags: readonly string[];
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly parameters: readonly Parameter[];
  readonly requestBody?: { readonly required: boolean; readonly content: Schema };
  readonly responses: Readonly<Record<string, any>>;
  /** The rows that each role reaches, and the fields that it may see. */
  readonly "x-roles": Readonly<Record<string, { readonly rows: string; readonly fields?: readonly string[] }>>;
}
export interface OpenApi {
  readonly openapi: "3.1.0";
  readonly info: Schema;
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: Schema;
}

/** Schemas that contain themselves, by the name that references use. */
type NamedSchemas = Record<string, Schema>;

/**
 * The JSON schema of a zod schema, valid anywhere in the document. zod puts a schema that contains
 * itself under `$defs`; such a schema goes to `shared`, once.
 */
const schemaOf = (shared: NamedSchemas, schema: z.ZodType, io: "input" | "output"): Schema => {
  const made = z.toJSONSchema(schema, { io, target: "draft-2020-12", unrepresentable: "any" });
  const { $schema: _, $defs = {}, ...rest } = made;
  const names = new Map(Object.entries($defs).map(([name, part]) => [name, nameOfPart(part as Schema)]));
  // "#" refers to the whole schema, when it contains itself.
  const whole = nameOfPart(rest);
  const placed = (name: string): string => `"$ref":"#/components/schemas/${name}"`;
  const moved = (part: unknown): Schema =>
    JSON.parse(
      JSON.stringify(part)
        .replace(/"\$ref":"#\/\$defs\/(\w+)"/g, (_all, name) => placed(names.get(name)!))
        .replaceAll('"$ref":"#"', placed(whole)),
    );
  for (const [name, part] of Object.entries($defs)) shared[names.get(name)!] = moved(part);
  if (!JSON.stringify(made).includes('"$ref":"#"')) return moved(rest);
  shared[whole] = moved(rest);
  return { $ref: `#/components/schemas/${whole}` };
};
const nameOfPart = (part: Schema): string =>
  `Schema${createHash("sha256").update(JSON.stringify(part)).digest("hex").slice(0, 8)}`;

const problem = {
  type: "object",
  required: ["type", "title", "status", "detail", "instance", "code", "request_id"],
  properties: {
    type: { type: "string" },
    title: { type: "string" },
    status: { type: "integer" },
    detail: { type: "string" },
    instance: { type: "string" },
    code: { type: "string" },
    request_id: { type: "string" },
    errors: {
      type: "array",
      items: {
        type: "object",
        properties: { pointer: { type: "string" }, code: { type: "string" }, detail: { type: "string" } },
      },
    },
  },
};

const nameOf = ({ method, path }: ServedRoute): string =>
  `${method.toLowerCase()}_${path
    .replace(/^\/api\//, "")
    .replace(/[^A-Za-z0-9]+/g, "_")
    .replace(/^_|_$/g, "")}`;
const areaOf = ({ path }: ServedRoute): string =>
  path
    .replace(/^\/api\//, "")
    .split("/")[0]!
    .replace(/^\//, "");

const parametersIn = (shared: NamedSchemas, schema: z.ZodType, place: "path" | "query"): readonly Parameter[] => {
  const { properties = {}, required = [] } = schemaOf(shared, schema, "input");
  return Object.entries(properties as Record<string, Schema>).map(([name, { description, ...rest }]) => ({
    name,
    in: place,
    required: place === "path" || (required as readonly string[]).includes(name),
    ...(description !== undefined && { description }),
    schema: rest,
  }));
};

const headersOf = ({ contract }: ServedRoute): readonly Parameter[] => {
  const header = (name: string, description: string): Parameter => ({
    name,
    in: "header",
    required: false,
    description,
    schema: { type: "string" },
  });
  return [
    ...(contract.isIdempotent ? [header("Idempotency-Key", "1 to 128 characters, kept for 7 days")] : []),
    ...(contract.conflicts.includes("version_conflict") ? [header("If-Match", "the version that you have seen")] : []),
  ];
};

const bodyOf = (shared: NamedSchemas, { method, contract }: ServedRoute): Pick<Operation, "requestBody"> => {
  if (method === "GET") return {};
  const schema = schemaOf(shared, contract.body, "input");
  const isEmpty = schema.type === "object" && Object.keys(schema.properties ?? {}).length === 0;
  if (isEmpty) return {};
  const required = !contract.body.safeParse(undefined).success;
  return { requestBody: { required, content: { "application/json": { schema } } } };
};

const SUCCESS: Readonly<Record<number, string>> = {
  200: "Done.",
  201: "Made.",
  202: "Taken; it goes on after this answer.",
  204: "Done; there is nothing to say.",
};

const responsesOf = (shared: NamedSchemas, { contract, auth, roles }: ServedRoute): Operation["responses"] => {
  const refused = (description: string) => ({
    description,
    content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } },
  });
  const role: Role | undefined = roles.includes("admin") ? "admin" : roles[0];
  const schema = schemaOf(shared, answerOf(contract.answers, role), "output");
  const content = {
    "application/json": { schema },
    ...(contract.list?.csv && { "text/csv": { schema: { type: "string" } } }),
  };
  const done = (status: number) => ({ description: SUCCESS[status], ...(status !== 204 && { content }) });
  return {
    [contract.status]: done(contract.status),
    ...(contract.otherStatus && { [contract.otherStatus]: done(contract.otherStatus) }),
    "400": refused("The request is not acceptable; `errors` name each place."),
    ...(auth !== "none" && auth !== "invitation" && { "401": refused("No valid token.") }),
    ...(auth === "user" && { "403": refused(forbiddenIn(contract)) }),
    "404": refused("There is nothing of this id that you may see."),
    ...(contract.conflicts.length > 0 && { "409": refused(`One of: ${contract.conflicts.join(", ")}.`) }),
    "429": refused("Too many requests; `Retry-After` says when to come again."),
    "503": refused("A store is away; `Retry-After` says when to come again."),
  };
};

const forbiddenIn = ({ needsWholePartner: part }: Contract): string =>
  part === undefined
    ? "Not for your role."
    : `Not for your role; \`shared_partner\` (${part}) if the partner has clients that you may not see.`;

const operationOf = (shared: NamedSchemas, route: ServedRoute): Operation => {
  const { contract, auth, row } = route;
  return {
    operationId: nameOf(route),
    summary: contract.summary,
    tags: [areaOf(route)],
    security: auth === "none" || auth === "invitation" ? [] : [{ [auth === "user" ? "user" : "service"]: [] }],
    parameters: [
      ...parametersIn(shared, contract.params, "path"),
      ...parametersIn(shared, contract.query, "query"),
      ...headersOf(route),
    ],
    ...bodyOf(shared, route),
    responses: responsesOf(shared, route),
    "x-roles": Object.fromEntries(
      Object.entries(row.access).map(([role, rows]) => {
        const fields = fieldsOf(contract, role as Role);
        return [role, { rows, ...(fields.length > 0 && { fields }) }];
      }),
    ),
  };
};

/** Describes the routes that are served; planned routes are left out. */
export const openApiOf = (routes: readonly ServedRoute[], version: string): OpenApi => {
  const shared: NamedSchemas = {};
  const paths: Record<string, Record<string, Operation>> = {};
  for (const route of routes) {
    const path = route.path.replace(/:(\w+)/g, "{$1}");
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operationOf(shared, route) };
  }
  const bearer = { type: "http", scheme: "bearer" };
  return {
    openapi: "3.1.0",
    info: { title: "Tributary platform API", version },
    paths,
    components: {
      schemas: { Problem: problem, ...shared },
      securitySchemes: {
        user: { ...bearer, bearerFormat: "JWT", description: "Of the identity provider." },
        service: { ...bearer, description: "A service token." },
      },
    },
  };
};
