// The logins of processes to Postgres, and the roles that each may take on for a transaction.

/**
 * Group roles: each may do something that tributary_app itself may not. No one logs in as one of
 * them. reference reads all tenants' reference data; edge knows tokens by their hash, stores
 * recordings and counts dead letters; tokens makes tokens and users; secrets reads the signing
 * secrets; keeper does the work of schedules.
 */
export const groupRoles = [
  "tributary_reference",
  "tributary_edge",
  "tributary_tokens",
  "tributary_secrets",
  "tributary_keeper",
] as const;
export type GroupRole = (typeof groupRoles)[number];

/** The apps of the product that have their own login. */
export type AppLogin = "ingest" | "worker" | "api" | "keeper";

/**
 * The roles that each app takes on. The command line is tributary_app, and takes on all of them.
 */
export const appLogins: Readonly<Record<AppLogin, { readonly role: string; readonly groups: readonly GroupRole[] }>> = {
  ingest: { role: "tributary_app_ingest", groups: ["tributary_reference", "tributary_edge"] },
  worker: { role: "tributary_app_worker", groups: ["tributary_reference"] },
  api: { role: "tributary_app_api", groups: [...groupRoles] },
  keeper: {
    role: "tributary_app_keeper",
    groups: ["tributary_reference", "tributary_edge", "tributary_tokens", "tributary_keeper"],
  },
};

const makeRole = (role: string): string =>
  `do $$ begin create role ${role}; exception when duplicate_object or unique_violation then null; end $$`;

/**
 * Statements that make missing roles and give each app's login its groups, and no others. Whether a
 * login may log in, and with which password, is left alone: the owner of the server decides that.
 * INHERIT FALSE: the rights of a group are never used by accident. SET FALSE: no login becomes
 * tributary_app, which may take on every group.
 */
export const roleStatements = (): readonly string[] => [
  ...["tributary_app", ...groupRoles, ...Object.values(appLogins).map(({ role }) => role)].map(makeRole),
  ...groupRoles.map((group) => `grant ${group} to tributary_app with inherit false, set true`),
  ...Object.values(appLogins).flatMap(({ role, groups }) => [
    `alter role ${role} nocreatedb nocreaterole`,
    `grant tributary_app to ${role} with inherit true, set false`,
    ...groupRoles.map((group) =>
      groups.includes(group)
        ? `grant ${group} to ${role} with inherit false, set true`
        : `revoke ${group} from ${role}`,
    ),
  ]),
];
