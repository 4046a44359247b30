// The users of the platform: who may come in and as what. An identity provider says who they are.

import type { Command } from "commander";
import type pg from "pg";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { Refused, UsageError } from "../../../../infra/runtime/refused.ts";
import {
  changeUser,
  createUser,
  type KnownTenants,
  type ListedUser,
  type Locale,
  listUsers,
  type Role,
  roles,
  type UserChange,
  UserRefused,
  unbindUser,
  userByEmail,
  withUsers,
} from "../../../../modules/access/users/users.ts";
import { actorOf, beginOperation, type OperationPlan } from "../../../../modules/base/operations/operations.ts";
import { referenceNow } from "../../../../modules/catalog/clients/find-client.ts";
import { withAudit } from "../../connections.ts";
import { minuteOf } from "../../moments.ts";
import { clientOf, withPool } from "../../pool.ts";

interface Options {
  readonly role?: string;
  readonly name?: string;
  readonly locale?: string;
  readonly client?: readonly string[];
  readonly partner?: string;
  readonly actor?: string;
  readonly reason?: string;
  readonly json?: boolean;
}
type Kind = Extract<OperationPlan["kind"], `user_${string}`>;

/** How a field of the row is called here. */
const flags: Readonly<Record<UserRefused["field"], string>> = {
  email: "<email>",
  name: "--name",
  role: "--role",
  partner_id: "--partner",
  client_ids: "--client",
  status: "<email>",
  locale: "--locale",
};
const cures: Readonly<Record<UserRefused["code"], string>> = {
  bad_user: "tributary users create --help",
  email_in_use: "tributary users list",
  unknown_user: "tributary users list",
  last_admin: "tributary users create <email> --role admin",
};
const inWords = (error: unknown): never => {
  if (!(error instanceof UserRefused)) throw error;
  const text = `${flags[error.field]}: ${error.message}; see: ${cures[error.code]}`;
  throw error.code === "last_admin" ? new Refused(text) : new UsageError(text);
};

const roleOf = (text: string | undefined): Role => {
  const role = roles.find((known) => known === text);
  if (role === undefined) throw new UsageError(`--role: ${text ?? "nothing"} is none of ${roles.join(", ")}`);
  return role;
};
const partnerOf = (text: string): number => {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new UsageError(`--partner: ${text} is not an id`);
  return Number(text);
};
/** What the options say of a user; a field is absent when its option is. */
const fieldsOf = async (pool: pg.Pool, { role, name, locale, client, partner }: Options): Promise<UserChange> => {
  const clients = client && (await Promise.all(client.map((one) => clientOf(pool, one))));
  return {
    ...(role !== undefined && { role: roleOf(role) }),
    ...(name !== undefined && { name }),
    ...(locale !== undefined && { locale: locale as Locale }),
    ...(clients && { client_ids: clients.map(({ client_id }) => client_id) }),
    ...(partner !== undefined && { partner_id: partnerOf(partner) }),
  };
};

interface Doing {
  readonly kind: Kind;
  readonly email: string;
  readonly options: Options;
  readonly work: (tx: Pick<pg.PoolClient, "query">, known: KnownTenants) => Promise<ListedUser>;
}
/** Written to the audit before and after; dying in between, the user is changed or it is not. */
const audited = (pool: pg.Pool, { kind, email, options, work }: Doing): Promise<ListedUser> =>
  withAudit(async (audit) => {
    const plan: OperationPlan = {
      kind,
      actor: actorOf(options.actor),
      target: email,
      ...(options.reason !== undefined && { reason: options.reason }),
    };
    const known = await referenceNow(pool);
    const operation = await beginOperation(audit, plan, {});
    try {
      const user = await withUsers(pool, (tx) => work(tx, known));
      const { role, partner_id, client_ids, status } = user;
      await operation.end("succeeded", { user_id: user.user_id, role, partner_id, client_ids, status });
      return user;
    } catch (error) {
      await operation.end(error instanceof UserRefused ? "refused" : "failed", { problem: (error as Error).message });
      return inWords(error);
    }
  });

const show = (user: ListedUser, { json }: Options, said: string): void => {
  if (json) printJson(user);
  else print(said);
};
const scopeOf = ({ role, client_ids: ids, partner_id }: ListedUser): string => {
  if (role === "partner") return `partner ${partner_id}`;
  if (ids.length > 0) return `clients ${ids.join(", ")}`;
  return role === "client_manager" ? "no client yet" : "all clients";
};

const create = (email: string, options: Options): Promise<void> =>
  withPool(async (pool) => {
    const role = roleOf(options.role);
    const wanted = { name: email.split("@")[0]!, ...(await fieldsOf(pool, options)), email, role };
    const work: Doing["work"] = (tx, known) => createUser(tx, wanted, known);
    const user = await audited(pool, { kind: "user_create", email, options, work });
    show(user, options, `user ${user.user_id}: ${user.email}, ${user.role}, ${scopeOf(user)}`);
    tell("the first login with this address, verified by the identity provider, binds its identity");
  });

/** Changes the user of an address, and prints what it is now. */
const change = (kind: Kind, email: string, options: Options, fields: UserChange): Promise<void> =>
  withPool(async (pool) => {
    const work: Doing["work"] = async (tx, known) =>
      changeUser(tx, (await userByEmail(tx, email)).user_id, fields, known);
    const user = await audited(pool, { kind, email, options, work });
    show(user, options, `user ${user.user_id}: ${user.email}, ${user.role}, ${scopeOf(user)}, ${user.status}`);
    tell("it acts on the next request of this user");
  });

const assign = async (email: string, options: Options): Promise<void> => {
  const fields = await withPool((pool) => fieldsOf(pool, options));
  if (Object.keys(fields).length === 0)
    throw new UsageError("say what to change: --role, --client, --partner, --name or --locale");
  await change("user_assign", email, options, fields);
};

const reset = (email: string, options: Options): Promise<void> =>
  withPool(async (pool) => {
    const work: Doing["work"] = async (tx) => {
      const user = await userByEmail(tx, email);
      await unbindUser(tx, user.user_id);
      return { ...user, bound_at: null };
    };
    const user = await audited(pool, { kind: "user_reset", email, options, work });
    show(user, options, `user ${user.user_id}: ${user.email} is bound to no identity`);
    tell("the next login with this address, verified by the identity provider, binds another one");
  });

const list = ({ json }: Options): Promise<void> =>
  withPool(async (pool) => {
    const users = await withUsers(pool, listUsers);
    if (json) return printJson({ data: users });
    if (users.length === 0)
      return print("there is no user; the first admin: tributary users create <email> --role admin");
    print(
      table(
        ["id", "email", "name", "role", "sees", "status", "first login", "created"],
        users.map((user) => [
          user.user_id,
          user.email,
          user.name,
          user.role,
          scopeOf(user),
          user.status,
          minuteOf(user.bound_at),
          minuteOf(user.created_at),
        ]),
      ),
    );
  });

const each = (value: string, before: readonly string[] | undefined): readonly string[] => [...(before ?? []), value];
const example = (...lines: readonly string[]): string =>
  `Examples:\n${lines.map((line) => `  $ tributary users ${line}\n`).join("")}`;
const tenants = (command: Command): Command =>
  command
    .option("--name <text>", "as others see it")
    .option("--locale <language>", "of mails: es, en")
    .option("--client <slug or id>", "of a client_manager, viewer or client_user; can be repeated", each)
    .option("--partner <id>", "of a partner user");
const audit = (command: Command): Command =>
  command
    .option("--actor <email>", "who does it, for the audit, beside the user of this machine")
    .option("--reason <text>", "why, for the audit")
    .option("--json", "as JSON");

export const userCommands = (program: Command): void => {
  const users = program.command("users").description("who may come in, and as what; the first admin is made here");
  const add = (name: string, what: string, ...examples: readonly string[]): Command =>
    users
      .command(name)
      .description(what)
      .addHelpText("before", example(...examples));
  audit(
    tenants(
      add(
        "create <email>",
        "makes a user, who comes in with the first login",
        "create ana@shop.example --role admin --name 'Ana Ruiz'",
        "create leo@shop.example --role client_manager --client aurora-music --client casa-verde",
      ).requiredOption("--role <role>", roles.join(", ")),
    ),
  ).action(create);
  add("list", "every user, disabled ones too", "list", "list --json").option("--json", "as JSON").action(list);
  audit(
    tenants(
      add(
        "assign <email>",
        "gives a user another role or other clients; those that are named replace all before",
        "assign leo@shop.example --client aurora-music",
        "assign leo@shop.example --role viewer --reason 'moved to finance'",
      ).option("--role <role>", roles.join(", ")),
    ),
  ).action(assign);
  const simple = (name: string, what: string) => audit(add(`${name} <email>`, what, `${name} leo@shop.example`));
  simple("disable", "lets a user in no more, from the next request on").action((email, options) =>
    change("user_disable", email, options, { status: "disabled" }),
  );
  simple("enable", "lets a disabled user in again").action((email, options) =>
    change("user_enable", email, options, { status: "active" }),
  );
  simple("reset", "forgets the identity of a user: the next login with the address binds another").action(reset);
};
