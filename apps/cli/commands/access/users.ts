// The users of the platform and their roles. Who they are is decided by an identity provider.

import type { Command } from "commander";
import type pg from "pg";
import { CommandRefused, UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { changeUser, type UserChange } from "../../../../modules/access/users/change.ts";
import { createUser } from "../../../../modules/access/users/create.ts";
import { resetUser } from "../../../../modules/access/users/reset.ts";
import {
  type ListedUser,
  type Locale,
  listUsers,
  type Role,
  roles,
  withUsers,
} from "../../../../modules/access/users/users.ts";
import { actorOf, type OperationPlan } from "../../../../modules/base/operations/operations.ts";
import { RefusalError } from "../../../../modules/base/refusal.ts";
import type { Work } from "../../../../modules/base/work.ts";
import { minuteOf } from "../../moments.ts";
import { clientOf, withPool } from "../../pool.ts";
import { sentencesOf } from "../../refusals.ts";
import { inOperation, inWork, operatorAct } from "../../work.ts";

interface Options {
  readonly role?: string;
  readonly name?: string;
  readonly locale?: string;
  readonly client?: readonly string[];
  readonly allClients?: boolean;
  readonly partner?: string;
  readonly actor?: string;
  readonly reason?: string;
  readonly json?: boolean;
}
type Kind = Extract<OperationPlan["kind"], `user_${string}`>;

/** The options of this command, by field of a user. */
const FLAGS = {
  ...{ email: "<email>", name: "--name", role: "--role", partner_id: "--partner" },
  ...{ client_ids: "--client", all_clients: "--all-clients", status: "<email>", locale: "--locale" },
};
const CURES: Readonly<Record<string, string>> = {
  bad_user: "tributary users create --help",
  email_in_use: "tributary users list",
  last_admin: "tributary users create <email> --role admin",
};
const inWords =
  (email: string) =>
  (error: unknown): never => {
    if (!(error instanceof RefusalError)) throw error;
    const [first] = error.refusals;
    const { code } = first!;
    if (code === "not_found") throw new UsageError(`<email>: there is no user ${email}; see: tributary users list`);
    const text = `${sentencesOf(error, FLAGS).join("\n")}; see: ${CURES[code]}`;
    throw code === "last_admin" ? new CommandRefused(text) : new UsageError(text);
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
/** Returns the fields that options were given for. */
const fieldsOf = async (
  pool: pg.Pool,
  { role, name, locale, client, allClients, partner }: Options,
): Promise<UserChange> => {
  const clients = client && (await Promise.all(client.map((one) => clientOf(pool, one))));
  return {
    ...(role !== undefined && { role: roleOf(role) }),
    ...(name !== undefined && { name }),
    ...(locale !== undefined && { locale: locale as Locale }),
    ...(clients && { client_ids: clients.map(({ client_id }) => client_id) }),
    ...(allClients !== undefined && { all_clients: allClients }),
    ...(partner !== undefined && { partner_id: partnerOf(partner) }),
  };
};

interface UserCommand {
  readonly kind: Kind;
  readonly email: string;
  readonly options: Options;
  readonly useCase: (work: Work) => Promise<ListedUser>;
}
/**
 * The log has a record before and one after. A crash between them leaves the user either changed or
 * unchanged.
 */
const changed = (pool: pg.Pool, { kind, email, options, useCase }: UserCommand): Promise<ListedUser> => {
  const { reason } = options;
  const actor = actorOf(options.actor);
  const plan: OperationPlan = { kind, actor, target: email, ...(reason !== undefined && { reason }) };
  const after = ({ user_id, role, partner_id, client_ids, status }: ListedUser) => {
    return { user_id, role, partner_id, client_ids, status };
  };
  return inOperation(plan, { after }, () => inWork(pool, operatorAct(actor), useCase)).catch(inWords(email));
};

const show = (user: ListedUser, { json }: Options, said: string): void => {
  if (json) printJson(user);
  else print(said);
};
const scopeOf = ({ role, client_ids: ids, all_clients, partner_id }: ListedUser): string => {
  if (role === "partner") return `partner ${partner_id}`;
  if (ids.length > 0) return `clients ${ids.join(", ")}`;
  return role === "admin" || all_clients ? "all clients" : "no client yet";
};

const create = (email: string, options: Options): Promise<void> =>
  withPool(async (pool) => {
    const role = roleOf(options.role);
    const wanted = { name: email.split("@")[0]!, ...(await fieldsOf(pool, options)), email, role };
    const useCase: UserCommand["useCase"] = (work) => createUser(work, wanted);
    const user = await changed(pool, { kind: "user_create", email, options, useCase });
    show(user, options, `user ${user.user_id}: ${user.email}, ${user.role}, ${scopeOf(user)}`);
    tell("the first login with this address, verified by the identity provider, binds its identity");
  });

/** Changes the user of an e-mail address and prints the result. */
const change = (kind: Kind, email: string, options: Options, fields: UserChange): Promise<void> =>
  withPool(async (pool) => {
    const useCase: UserCommand["useCase"] = (work) => changeUser(work, { user: { email }, patch: fields });
    const user = await changed(pool, { kind, email, options, useCase });
    show(user, options, `user ${user.user_id}: ${user.email}, ${user.role}, ${scopeOf(user)}, ${user.status}`);
    tell("it acts on the next request of this user");
  });

const assign = async (email: string, options: Options): Promise<void> => {
  const fields = await withPool((pool) => fieldsOf(pool, options));
  if (Object.keys(fields).length === 0)
    throw new UsageError("say what to change: --role, --client, --all-clients, --partner, --name or --locale");
  await change("user_assign", email, options, fields);
};

const reset = (email: string, options: Options): Promise<void> =>
  withPool(async (pool) => {
    const useCase: UserCommand["useCase"] = (work) => resetUser(work, email);
    const user = await changed(pool, { kind: "user_reset", email, options, useCase });
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
    .option("--all-clients", "of a viewer: it sees all clients, also later ones")
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
