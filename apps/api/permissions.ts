// Says who may call each route of this host and which fields they see, as a page and as a table for
// machines. Both are made from routes.yaml, the router and the shapes of the answers.
import { createHash } from "node:crypto";
import { csvLine } from "../../infra/http/csv.ts";
import { type Role, roles } from "../../modules/access/users/users.ts";
import { type ShownField, shownTo } from "./contract/row-shapes.ts";
import type { ServedRoute } from "./route.ts";
import type { RouteRow } from "./route-table.ts";

export interface Permission {
  readonly method: string;
  readonly path: string;
  /** A planned route is not served; of its answer only `hides` is known. */
  readonly state: "served" | "planned";
  readonly auth: string;
  /** The rows that a role reaches, or 403; empty where the route takes no user. */
  readonly access: Readonly<Record<Role, string>>;
  /** For each role, the fields that only other roles see; for a planned route its `hides`. */
  readonly hidden: string;
  readonly personal: string;
  readonly secrets: string;
  /** What a caller who lacks a client of the partner is answered 403 `shared_partner` for. */
  readonly shared_partner: string;
  /** From when a new credential is good, and until when one that was replaced. */
  readonly credential: string;
}

/** Last parts of paths of fields that identify or locate a person. */
const PERSONAL = new Set([
  ...["email", "actor", "by", "created_by", "invited_by", "uploaded_by", "ip", "first_name", "last_name", "phone"],
]);
const SECRETS = new Set(["secret", "hmac_secret", "token", "upload_token", "ingest_token", "key"]);

const lastOf = (path: string): string => path.slice(path.lastIndexOf(".") + 1).replaceAll("[]", "");
export const isPersonal = ({ path }: ShownField): boolean => PERSONAL.has(lastOf(path));
export const isSecret = ({ path }: ShownField): boolean => SECRETS.has(lastOf(path));

/** Every row of this host, in the order of routes.yaml. */
export const permissionsOf = (table: readonly RouteRow[], routes: readonly ServedRoute[]): readonly Permission[] =>
  table
    .filter(({ host }) => host === "api")
    .map((row) => {
      const served = routes.find(({ method, path }) => method === row.method && path === row.path);
      const { method, path, auth } = row;
      const access = Object.fromEntries(
        roles.map((role) => [role, auth === "user" ? (row.access[role] ?? "403") : ""]),
      ) as Permission["access"];
      const shown = served === undefined ? plannedOf(row) : shownOf(served);
      const more = {
        shared_partner: served?.contract.needsWholePartner ?? NOTHING,
        credential: CREDENTIALS[auth] ?? NOTHING,
      };
      return { method, path, state: served === undefined ? "planned" : "served", auth, access, ...shown, ...more };
    });

/** tests/api/new-credentials.test.ts, users.test.ts and invitations.test.ts show them. */
const CREDENTIALS: Readonly<Record<string, string>> = {
  user: "a changed role: next request",
  "service-token": "new: at once; replaced: 1 s",
  hmac: "new: at once; replaced: 1 s",
  invitation: "once, 7 days",
};

type ShownFields = Pick<Permission, "hidden" | "personal" | "secrets">;
const NOTHING = "";

const plannedOf = ({ hides, access }: RouteRow): ShownFields => {
  const masked = roles.filter((role) => access[role] === "masked");
  const hidden = hides.length === 0 ? NOTHING : `${masked.length > 0 ? masked.join(", ") : "all"}: ${hides.join(" ")}`;
  return { hidden, personal: NOTHING, secrets: NOTHING };
};

/** Routes without roles have one view, "anyone". */
const shownOf = ({ contract, roles: allowed }: ServedRoute): ShownFields => {
  const views = new Map<string, readonly ShownField[]>(
    allowed.length === 0
      ? [["anyone", shownTo(contract, undefined)]]
      : allowed.map((role) => [role, shownTo(contract, role)]),
  );
  const names = [...new Set([...views.values()].flatMap((fields) => fields.map(({ path }) => path)))];
  const lacking = [...views].flatMap(([role, fields]) => {
    const has = new Set(fields.map(({ path }) => path));
    const hidden = names.filter((name) => !has.has(name));
    return hidden.length === 0 ? [] : [`${role}: ${hidden.join(" ")}`];
  });
  return { hidden: lacking.join("; "), personal: careOf(views, isPersonal), secrets: careOf(views, isSecret) };
};

/** Each such field with the roles that see it, in clear or masked. */
const careOf = (views: ReadonlyMap<string, readonly ShownField[]>, isMeant: (field: ShownField) => boolean): string => {
  const cared = [...views].flatMap(([role, fields]) => fields.filter(isMeant).map((field) => ({ ...field, role })));
  return [...new Set(cared.map(({ path }) => path))]
    .map((path) => {
      const who = cared.filter((one) => one.path === path);
      return `${path} (${who.map(({ role, isMasked }) => (isMasked ? `${role} masked` : role)).join(", ")})`;
    })
    .join("; ");
};

const heads = [
  ...["method", "path", "state", "auth", ...roles],
  ...["hidden", "personal", "secrets", "shared_partner", "credential"],
];
const cellsOf = ({ access, ...one }: Permission): readonly string[] => [
  ...[one.method, one.path, one.state, one.auth],
  ...roles.map((role) => access[role]),
  ...[one.hidden, one.personal, one.secrets, one.shared_partner, one.credential],
];

/** Equal hashes mean equal cells in equal order. */
const hashOf = (permissions: readonly Permission[]): string =>
  createHash("sha256")
    .update(JSON.stringify(permissions.map(cellsOf)))
    .digest("hex");

export const permissionsCsv = (permissions: readonly Permission[]): string => {
  const kinds = heads.map(() => "text" as const);
  return [heads, ...permissions.map(cellsOf)].map((cells) => csvLine(cells, kinds)).join("");
};

export const permissionsPage = (permissions: readonly Permission[]): string => {
  const planned = permissions.filter(({ state }) => state === "planned").length;
  return [
    "# Who may call what",
    "",
    `The platform API has ${permissions.length} routes: ${permissions.length - planned} served, ${planned} planned.`,
    "A planned route is decided and answers 404: the page knows who will be let in and what its row hides, and nothing",
    "of its answer.",
    "",
    "- `all`: every row. `assigned`: rows of assigned clients. `own`: rows of the caller. `masked`: own rows,",
    "  without what the route hides. `read`: reads what admin reads. `403`: may not call it. Empty: no user is",
    "  asked for. A row that a caller may not see answers as one that does not exist: 404.",
    "- hidden: fields that another role is shown and this one is not. They are not selected, sorted or filtered by.",
    "- personal: fields that say who a person is, with the roles that are shown them; masked is `a***@example.com`.",
    "- secrets: fields that open something. A path that ends in `*` is what a module reports as it is.",
    "- shared_partner: what a manager who lacks a client of the partner is answered 403 `shared_partner` for.",
    "- credential: from when a new one is good, and until when one that was replaced or changed.",
    "",
    `| ${heads.join(" | ")} |`,
    `|${heads.map(() => "---").join("|")}|`,
    ...permissions.map((one) => `| ${cellsOf(one).map(escaped).join(" | ")} |`),
    "",
    "The same for machines: [permissions.csv](permissions.csv). Made of `apps/api/routes.yaml`, the router and the",
    "shapes of the answers by `npm run permissions`; `npm run check` compares.",
    "",
    `SHA-256 of all cells: \`${hashOf(permissions)}\``,
    "",
  ].join("\n");
};

/** The text with the marks of Markdown escaped. */
const escaped = (text: string): string => text.replaceAll("|", "\\|").replaceAll("*", "\\*").replaceAll("_", "\\_");
