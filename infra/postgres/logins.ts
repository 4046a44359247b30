// The logins of processes to Postgres, and the roles that each may take on for a transaction.

/**
 * Group roles: each may do something that a login may not do as itself. No one logs in as one of
 * them. reference reads all tenants' reference data; edge knows tokens by their hash, stores what
 * senders of the ingest host send and counts dead letters; pixel stores sightings and recordings;
 * upload stores files and works them off; tokens makes tokens and users; secrets reads the signing
 * secrets; keeper does the work of schedules.
 */
export const groupRoles = [
  "tributary_reference",
  "tributary_edge",
  "tributary_pixel",
  "tributary_upload",
  "tributary_tokens",
  "tributary_secrets",
  "tributary_keeper",
] as const;
export type GroupRole = (typeof groupRoles)[number];

/**
 * What a login may do as itself. tributary_app reads and writes rows of the transaction's tenants.
 * tributary_host only reports that a host runs; an edge has further rights of its own login alone
 * (293_least_rights.sql).
 */
const baseRoles = ["tributary_app", "tributary_host"] as const;

/** The apps of the product that have their own login. */
export type AppLogin = "ingest" | "links" | "pixel" | "upload" | "worker" | "api" | "keeper";
interface Login {
  readonly role: string;
  readonly base: (typeof baseRoles)[number];
  readonly groups: readonly GroupRole[];
}

/**
 * The roles that each app takes on. The command line is tributary_app, and takes on all of them.
 */
export const appLogins: Readonly<Record<AppLogin, Login>> = {
  ingest: {
    role: "tributary_app_ingest",
    base: "tributary_host",
    // Edges of the release before log in as this one too, and take on the first two alone. The
    // third goes with what tributary_edge keeps for them: docs/security.md, "One release later".
    groups: ["tributary_reference", "tributary_edge", "tributary_upload"],
  },
  links: { role: "tributary_app_links", base: "tributary_host", groups: ["tributary_reference"] },
  pixel: { role: "tributary_app_pixel", base: "tributary_host", groups: ["tributary_reference", "tributary_pixel"] },
  upload: { role: "tributary_app_upload", base: "tributary_host", groups: ["tributary_reference", "tributary_upload"] },
  worker: { role: "tributary_app_worker", base: "tributary_app", groups: ["tributary_reference"] },
  api: { role: "tributary_app_api", base: "tributary_app", groups: [...groupRoles] },
  keeper: {
    role: "tributary_app_keeper",
    base: "tributary_app",
    groups: ["tributary_reference", "tributary_edge", "tributary_tokens", "tributary_keeper"],
  },
};
const logins: readonly Login[] = Object.values(appLogins);

const makeRole = (role: string): string =>
  `do $$ begin create role ${role}; exception when duplicate_object or unique_violation then null; end $$`;

/**
 * Statements that make missing roles and give each app's login its base and its groups, and no
 * other group. Whether a login may log in, and with which password, is left alone: the owner of the
 * server decides that. INHERIT FALSE: the rights of a group are never used by accident. SET FALSE:
 * no login becomes tributary_app, which may take on every group.
 */
export const roleStatements = (): readonly string[] => [
  ...[...baseRoles, ...groupRoles, ...logins.map(({ role }) => role)].map(makeRole),
  ...groupRoles.map((group) => `grant ${group} to tributary_app with inherit false, set true`),
  `grant usage on schema public to ${[...baseRoles, ...groupRoles].join(", ")}`,
  ...logins.flatMap(({ role, base, groups }) => [
    `alter role ${role} nocreatedb nocreaterole`,
    `grant ${base} to ${role} with inherit true, set false`,
    ...groupRoles.map((group) =>
      groups.includes(group)
        ? `grant ${group} to ${role} with inherit false, set true`
        : `revoke ${group} from ${role}`,
    ),
  ]),
];

/**
 * Statements that take every other base from the logins. They run once the migrations are applied:
 * until then edges of the release before have nothing else.
 */
export const revokeStatements = (): readonly string[] =>
  logins.flatMap(({ role, base }) =>
    baseRoles.filter((other) => other !== base).map((other) => `revoke ${other} from ${role}`),
  );
